// The decoder-only transformer of a spec as graph functions.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

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
  // Of a cache in pages (the port page_table): how many, and the tokens of each. 0: of each sequence
  // there is room for M tokens.
  int64_t pages = 0, page_tokens = 0;
};

// What a program that generates with a cache keeps of the tokens before. Stored as activations are.
struct CacheInterface {
  // [S,K,M,D], a slot a layer; or in pages of N tokens, [Pages,K,N,D].
  ir::ValueId keys = ir::kNoValue, values = ir::kNoValue;
  // [S,R,..], a slot a layer, by their names: with_earlier() declares them.
  std::map<std::string, ir::ValueId> histories;
};

// A program with an objective: replies to P prompts, N to each; see build_score().
struct ObjectiveInterface {
  ir::ValueId sets = ir::kNoValue;  // f32 [P,N,C], a view of the port reply_embeddings
  EncoderInterface encoder;         // where there is one
};

// A number that layers add up over a step's micro-batches, and that the update reports as a metric of the
// step and zeroes: f32 [N], and a view of it with a slot a layer.
struct LayerSum {
  runtime::MetricText metric;
  ir::ValueId all = ir::kNoValue, of_layer = ir::kNoValue;
};

// Blocks add it to what training minimizes; `loss` leaves it out.
inline const runtime::MetricText kAuxiliaryLoss{"aux_loss", "aux", 4};

// Values outside the network that its functions share, besides the graph's ports.
struct Interface {
  std::vector<LayerSum> layer_sums;                              // declared as blocks are built
  ir::ValueId rope_cos = ir::kNoValue, rope_sin = ir::kNoValue;  // f32 [T, R/2], or [2T, R/2]: ops::RopeForm
  // With model.mod, i32 [B,T], a slot for each routed layer: the choice of the last micro-batch,
  // ops::TokenChoice.
  ir::ValueId places = ir::kNoValue;
  // With model.mor, f32 [B,T], a slot a layer: the depths that the last micro-batch's tokens had.
  ir::ValueId token_depths = ir::kNoValue;
  // With model.moe, i32 [B,T,k], a slot a layer: the experts of the last micro-batch's tokens.
  ir::ValueId experts = ir::kNoValue;
  CacheInterface cache;          // of programs that generate with one, which have no port `prompt`
  ObjectiveInterface objective;  // of programs with an objective, which generate with a cache
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

// The port `step`, declared by the first who asks.
ir::ValueId steps_done(ir::Graph& graph);

// "micro_step": forward with dropout, loss (of weighted targets, with an objective) added to results.loss.
// To be differentiated. A loop over layers ends before iteration `cut` and another begins there, so that
// passes may treat the two differently; 0: one loop has all.
void build_micro_step(Model& model, int cut = 0);
// Appended to "micro_step" once it is differentiated: the next micro-batch draws other random bits.
void advance_randomness(Model& model);
// "evaluate": forward without dropout, results.eval_loss = inv_count * sum of losses; of
// classification also results.eval_hits.
void build_evaluate(Model& model);
// "generate": forward of the prompt, results.logits. Language models only.
void build_generate(Model& model);
// "prefill": forward of several prompts, whose keys and values are kept; results.prompt_logits.
void build_prefill(Model& model);
// "decode": forward of one token of each sequence, whose key and value are kept too; results.next_logits.
void build_decode(Model& model);

// "score", of programs with an objective: forward of a batch without dropout. Pairs: results.chosen_score and
// rejected_score. Sampled replies: results.target_losses; hidden
// states are added to results.reply_embeddings, by segments, whose distances follow. With an encoder that is
// what "embed" does, of the encoder's hidden states: build_embed().
void build_score(Model& model);
// "score_base", with objective.kl: the same without the adapter, results.base_target_losses alone.
void build_score_base(Model& model);

}  // namespace hydrac::models
