// The decoder-only transformer of a spec as graph functions.
//
// A block ends with the norm that the next one starts with (the last block's is the final norm), so the
// residual add and the norm that follows it are neighbours in one region and become one kernel.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "ir/graph.h"
#include "models/encoder.h"
#include "models/parameters.h"
#include "ops/builder.h"
#include "spec/spec.h"

namespace hydrac::models {

// A program that generates with a cache: how many sequences side by side, and the prompts that one call of
// "prefill" reads.
struct Generation {
  int64_t sequences = 0;      // S
  int64_t prompts = 0;        // A, at most S
  int64_t prompt_tokens = 0;  // P, at most M
  int64_t top = 0;            // N, the largest logits that decode finds too; 0: none
  int64_t tokens = 0;         // M, which a sequence may grow to; 0: train.sequence_len
  int64_t text_rows = 1;      // E, of an encoder of replies: rows of texts that one call of "embed" reads
  // Of a cache in pages (CacheInterface::page_table): how many, and the tokens of each. 0: of each sequence
  // there is room for M tokens.
  int64_t pages = 0, page_tokens = 0;
};

// What a program with a cache is given and leaves. A key value's storage type is that of activations.
struct CacheInterface {
  ir::ValueId prompts = ir::kNoValue;        // i32 [A,P]: ids, of any value behind a prompt's end
  ir::ValueId prompt_rows = ir::kNoValue;    // i32 [A]: the sequence that each is of, or -1
  ir::ValueId prompt_ends = ir::kNoValue;    // i32 [A]: its last token
  ir::ValueId prompt_logits = ir::kNoValue;  // f32 [A,V]: behind that token, then padding
  ir::ValueId tokens = ir::kNoValue;         // i32 [S,1]: the next token of each sequence
  ir::ValueId positions = ir::kNoValue;      // i32 [S,1]: how many tokens stand before it
  ir::ValueId logits = ir::kNoValue;         // f32 [S,1,V]: behind it, then padding
  // With Generation::top, see ops::TopLogits.
  ir::ValueId inverse_temperature = ir::kNoValue, vocabulary = ir::kNoValue, uniforms = ir::kNoValue;
  ir::ValueId top_values = ir::kNoValue, top_ids = ir::kNoValue, top_sums = ir::kNoValue,
              drawn = ir::kNoValue;
  // [S,K,M,D], a slot a layer; or in pages of N tokens, [Pages,K,N,D].
  ir::ValueId keys = ir::kNoValue, values = ir::kNoValue;
  // i32 [S, M / N rounded up]: the pages of each sequence's tokens, negative where it has none.
  ir::ValueId page_table = ir::kNoValue;
  // [S,R,..], a slot a layer, by their names: with_earlier() declares them.
  std::map<std::string, ir::ValueId> histories;
};

// What a program with an objective is given and leaves: replies to P prompts, N to each; see build_score().
struct ObjectiveInterface {
  ir::ValueId weights = ir::kNoValue;  // f32 [B,T]: of each target's loss, in micro_step
  // i32 [B,T]: the reply that each token is of, or -1. Absent where an encoder embeds them.
  ir::ValueId segments = ir::kNoValue;
  ir::ValueId losses = ir::kNoValue;       // f32 [B,T]: -log of each target's probability
  ir::ValueId base_losses = ir::kNoValue;  // f32 [B,T]: by the model without its adapter; with objective.kl
  // f32 [PN,C] and some rows of padding: sums of hidden states, of the model or of the encoder.
  ir::ValueId embeddings = ir::kNoValue;
  ir::ValueId sets = ir::kNoValue;       // f32 [P,N,C], a view of these
  ir::ValueId distance = ir::kNoValue;   // f32 [P]: mean cosine distance of two replies
  ir::ValueId distances = ir::kNoValue;  // f32 [P,N]: of each reply to the others
  EncoderInterface encoder;              // where there is one
};

// Numbers that layers add up over a step's micro-batches: f32 [N], and a view of it with a slot a layer.
struct LayerSums {
  ir::ValueId all = ir::kNoValue, of_layer = ir::kNoValue;
};

// Values outside the network that its functions share.
struct Interface {
  ir::ValueId tokens = ir::kNoValue;  // i32 [B,T]
  // Where spec::reads_documents(), i32 [B,T,2] and [B,T]: where in its sequence each token's document
  // begins and ends, and the token's position in it.
  ir::ValueId documents = ir::kNoValue, positions = ir::kNoValue;
  ir::ValueId features = ir::kNoValue;   // series: f32 [B,T,F]
  ir::ValueId targets = ir::kNoValue;    // i32 [B,T], -100 = ignored; regression: f32 [B,T,O], NaN = missing
  ir::ValueId inv_count = ir::kNoValue;  // f32 []: 1 / targets that count in the whole optimizer step
  // f32 [], in fp16 only: multiplies the gradient of the loss, see optimizers/loss_scale.h
  ir::ValueId loss_scale = ir::kNoValue;
  ir::ValueId loss = ir::kNoValue;  // f32 []: sum over the micro-batches so far
  // Of models whose blocks add to what training minimizes, declared as they are built.
  LayerSums aux_losses;
  LayerSums predictor_hits;  // of models that route tokens: the share of them that is predicted rightly
  LayerSums depths;          // of models whose tokens take passes of their own number: their mean depth
  ir::ValueId step = ir::kNoValue;       // i32 []: steps done; where the weight of these grows with it
  ir::ValueId eval_loss = ir::kNoValue;  // f32 []: of the last evaluated batch
  ir::ValueId eval_hits = ir::kNoValue;  // f32 []: targets of it that were predicted; classification only
  ir::ValueId rng_step = ir::kNoValue;   // u32 []: counts micro-batches; dropout's random bits depend on it
  ir::ValueId rng_seed = ir::kNoValue;   // u32 []
  // Where ranks share layers. `tokens` and `prompt` are then rows of a rank's part of the vocabulary, and
  // own_tokens and own_prompt say of each whether it is the rank's (1) or another's (0); `targets` are as
  // ops::cross_entropy_of_ranks has them.
  ir::ValueId own_tokens = ir::kNoValue, own_prompt = ir::kNoValue;  // f32 [B,T], [1,T]
  ir::ValueId own_classes = ir::kNoValue;  // i32 []: tokens of the rank's part, where not all have as many
  ir::ValueId own_seed = ir::kNoValue;     // u32 []: of what drops out of what only the rank has
  ir::ValueId first_row = ir::kNoValue;    // i32 []: of its rows of the residual stream; where these drop out
  ir::ValueId rope_cos = ir::kNoValue, rope_sin = ir::kNoValue;  // f32 [T, D/2]
  // With model.mod, i32 [B,T], a slot for each routed layer: the choice of the last micro-batch,
  // ops::TokenChoice.
  ir::ValueId places = ir::kNoValue;
  // With model.mor, f32 [B,T], a slot a layer: the depths that the last micro-batch's tokens had.
  ir::ValueId token_depths = ir::kNoValue;
  ir::ValueId prompt = ir::kNoValue;    // i32 [1,T]: generation's context
  ir::ValueId position = ir::kNoValue;  // i32 []: the token of it whose successor is wanted
  ir::ValueId logits = ir::kNoValue;    // f32 [1,V]: its logits, then padding
  CacheInterface cache;                 // of programs that generate with one, which have no `prompt`
  ObjectiveInterface objective;         // of programs with an objective, which generate with a cache
};

struct Model {
  const spec::Spec& spec;
  ir::Graph& graph;
  Parameters parameters;
  Interface interface;
};

// `cache`: with one, of a language model, of activations' type `storage`, and without `prompt`, `position`,
// `logits`.
Model declare_model(ir::Graph& graph, const spec::Spec& spec, const std::optional<Generation>& cache = {},
                    ir::DType storage = ir::DType::f32);

// "micro_step": forward with dropout, loss (of weighted targets, with an objective) added to interface.loss.
// To be differentiated. A loop over layers ends before iteration `cut` and another begins there, so that
// passes may treat the two differently; 0: one loop has all.
void build_micro_step(Model& model, int cut = 0);
// Appended to "micro_step" once it is differentiated: the next micro-batch draws other random bits.
void advance_randomness(Model& model);
// "evaluate": forward without dropout, interface.eval_loss = inv_count * sum of losses; of
// classification also interface.eval_hits.
void build_evaluate(Model& model);
// "generate": forward of the prompt, interface.logits. Language models only.
void build_generate(Model& model);
// "prefill": forward of several prompts, whose keys and values are kept; prompt_logits.
void build_prefill(Model& model);
// "decode": forward of one token of each sequence, whose key and value are kept too; cache.logits.
void build_decode(Model& model);

// "score", of programs with an objective: forward of a batch without dropout, objective.losses; hidden states
// are added to objective.embeddings, by segments, whose distances follow. With an encoder that is what
// "embed" does, of the encoder's hidden states: build_embed().
void build_score(Model& model);
// "score_base", with objective.kl: the same without the adapter, objective.base_losses alone.
void build_score_base(Model& model);

}  // namespace hydrac::models
