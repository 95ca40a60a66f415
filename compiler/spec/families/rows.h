// The usual rows of a family's table (spec/hugging_face/family.h), and the rows and names that families
// share.
#pragma once
#include <initializer_list>

#include "spec/hugging_face/family.h"

namespace hydrac::spec {

// A key that config.json must have, unless it stands for `if_absent`.
FamilyRow needed(std::string_view theirs, std::string_view ours, std::string_view if_absent = "");
// A key that may be absent or null, which stands for `if_absent`, or for our default where that is empty.
FamilyRow optional(std::string_view theirs, std::string_view ours, std::string_view if_absent = "");
// Likewise, for families whose models on their way out all have our default.
FamilyRow read_only(std::string_view theirs, std::string_view ours, std::string_view if_absent = "");
// All models of the family have `value`. `has`: in words, where it is not the value.
FamilyRow fixed(std::string_view ours, std::string_view value, std::string_view has = "");
// Likewise, for a value that reading leaves to our default.
FamilyRow only(std::string_view ours, std::string_view value, std::string_view has = "");
// Likewise on the way in; a model on its way out may lack it: its checkpoint then has zeros, or is packed all
// the same.
FamilyRow zeros_if_missing(std::string_view ours, std::string_view value);
// config.json must not say anything but `value`, if it has the key.
FamilyRow refused_unless(std::string_view theirs, std::string_view value, std::string_view otherwise);
// A key that is always written so, as JSON.
FamilyRow written(std::string_view theirs, std::string_view json);
// A second key for one of ours, which another row reads.
FamilyRow also_written(std::string_view theirs, std::string_view ours);
// A restriction that no key of config.json says.
FamilyRow rule(std::string_view ours, std::string_view has, bool (*holds)(const Spec&, const FamilyRow&));

FamilyRow activation(std::string_view theirs, bool gated, std::string_view if_absent);
// Read with the embedding's (embd_pdrop, embedding_dropout), which must be equal: one key of ours is two
// there.
FamilyRow residual_dropout(std::string_view theirs, std::string_view if_absent);
FamilyRow stored_type();
// One key for the biases of queries, keys, values and output.
FamilyRow attention_biases(std::string_view if_absent = "false");
// One for those and the mlp's.
FamilyRow linear_biases(std::string_view theirs, std::string_view if_absent);
// How files have projections. A model on its way out may have another word of those that keep all queries
// together: what is stored is the same.
FamilyRow packed(std::string_view word);
FamilyRow queries_together();
FamilyRow all_heads_have_keys();
// A null is as many as query heads.
FamilyRow key_value_heads(std::string_view if_absent);
// A number whose 0 is null there.
FamilyRow nullable(std::string_view theirs, std::string_view ours, std::string_view if_absent);

using Rows = std::vector<FamilyRow>;
Rows joined(std::initializer_list<Rows> parts);

struct PlainFamily {
  bool has_head_bias = false;
  bool has_experts = false;  // in each block, instead of an mlp
};
// Every family: language models over tokens whose layers are alike.
Rows plain_rows(const PlainFamily& family = {});
// Norms of a branch's input alone.
Rows input_norm_rows();
// All layers have rope, of one base.
Rows same_rope_rows();
// Dynamic rope scaling begins behind this length.
FamilyRow longest_row(std::string_view if_absent);
// Norms' weights, embeddings, scores, branches and logits as they are: no offset, factor or softcap. `other`:
// keys that the family has rows of its own for.
Rows plain_stream_rows(std::initializer_list<std::string_view> other = {});
// All heads are together as wide as the stream.
FamilyRow heads_fill_width();
// A key that is one over ours.
FamilyRow reciprocal(std::string_view theirs, std::string_view ours, std::string_view if_absent);
// One over our key's square.
FamilyRow inverse_square(std::string_view theirs, std::string_view ours, std::string_view if_absent);
// For families whose own token of padding may be beyond the vocabulary.
FamilyRow no_padding();
// A key that says nothing.
FamilyRow ignored(std::string_view theirs);
// Embeddings are multiplied by sqrt(hidden_size); read behind hidden_size.
FamilyRow root_of_width();
// Some configurations refuse others, whatever head_dim is.
FamilyRow heads_divide_width();

// Families with rms norms and rope differ in these: model_type, and the values that stand
// for absent keys.
struct RopeFamily {
  std::string_view model_type, architectures;  // JSON
  std::string_view key_value_heads, head_dim = "", norm_eps = "1e-6", tied = "false";
  std::string_view vocab_size = "", heads = "", longest = "";  // "": config.json must have the key
  std::string_view norm_eps_key = "rms_norm_eps", activation_key = "hidden_act", activation = "swiglu";
  bool is_gated = true;  // the mlp
  std::string_view theta = "10000", theta_key = "rope_theta";
  std::string_view partial = "";  // partial_rotary_factor, of families that have it
  std::string_view partial_key = "partial_rotary_factor";
  bool interleaves = false;                          // rope
  bool has_layernorm = false, has_norm_bias = true;  // a layernorm may lack biases
  std::string_view block = "sequential";             // "": use_parallel_residual says
  std::string_view packed = "none";                  // packed_weights
  bool has_experts = false;                          // in each block, instead of an mlp
};
Rows rope_rows(const RopeFamily&);
// All but biases, windows and norms of queries and keys of Llama and what is like it. Softcaps are read, but
// no model on its way out has any.
Rows llama_rows(const RopeFamily&);
// Experts that a softmax chooses. `count`: the key of their number; the others stand for absent keys.
struct ExpertFamily {
  std::string_view count, experts, top_k, aux_loss;
};
Rows expert_rows(const ExpertFamily&);
// One width of mlps and experts.
FamilyRow experts_of_mlp_width();
// norm_topk_prob, of families that have it.
FamilyRow normalized_weights();
// Rope's scaling.
Rows rope_scaling_rows();
// rope_scaling, or null without scaling.
std::string rope_scaling(const Spec&);
// No tokens that begin or end texts: those are in generation_config.json; without a word here, transformers
// would take the ids that the family's own tokenizer has.
Rows no_token_rows();
// Both, which come last.
Rows last_rows();
// Windows in all layers, in none or in all but every n-th one; a null is none. `if_absent`: the window of a
// config.json that has no such key, and `period_if_absent`: every how many layers one is without, where
// it has no layer_types.
Rows window_rows(std::string_view if_absent, std::string_view period_if_absent);
// The first of these rows.
FamilyRow window_row(std::string_view if_absent);
// Behind these rows, for families whose configurations need a window where no layer has it, too.
FamilyRow window_anyway();
// A sliding window with the keys of Qwen, which must switch it on; on the way out in the layers of
// sliding_window_pattern.
Rows switched_window_rows();
bool has_alike_windows(const Spec&, const FamilyRow&);
// Rope of layers with a window beside others without: the base `theta`, which is the others' where it is
// empty, and no scaling. Behind the windows' rows.
Rows local_rope_rows(std::string_view theta);
// Rope in layers with a window alone. `without_windows`: no_rope_pattern of models that have none, "0" for
// rope in all of their layers. Behind the windows' rows.
Rows rope_in_windows_rows(std::string_view without_windows);
// Read as those, but no model on its way out has a window.
Rows no_window_rows();

// Llama's names of modules, but for those of `changed`.
std::vector<ModuleName> llama_modules(std::initializer_list<ModuleName> changed = {});

// layer_types as JSON.
std::string layer_types(const Model&);

}  // namespace hydrac::spec
