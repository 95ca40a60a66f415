// The trained tensors of a model: shapes, starting values, names in checkpoints, and their place in memory.
//
// All parameters lie in one packed value, "parameters", first those that take weight decay. So an optimizer
// is one pointwise kernel over the pack, and a gradient, a moment and a parameter have the same offset in
// their packs.
#pragma once
#include "ir/graph.h"
#include "spec/spec.h"

namespace hydrac::models {

// Values of a transformer. A per-layer parameter is one value with a slot a layer; absent ones are kNoValue.
// Matrices are [out, in].
struct Parameters {
  ir::ValueId token_embedding = ir::kNoValue;                          // [V,C]
  ir::ValueId position_embedding = ir::kNoValue;                       // [P,C]
  ir::ValueId input_weight = ir::kNoValue, input_bias = ir::kNoValue;  // series: [C,F], [C]
  // The norm before attention; slot N is the norm after the last layer, so that a layer ends with the next
  // one's norm.
  ir::ValueId attn_norm_weight = ir::kNoValue, attn_norm_bias = ir::kNoValue;  // [C] x N+1
  ir::ValueId qkv_weight = ir::kNoValue, qkv_bias = ir::kNoValue;  // [(H+2K)D, C]: queries, keys, values
  ir::ValueId q_norm_weight = ir::kNoValue, k_norm_weight = ir::kNoValue;    // [D]
  ir::ValueId attn_out_weight = ir::kNoValue, attn_out_bias = ir::kNoValue;  // [C, HD]
  ir::ValueId mlp_norm_weight = ir::kNoValue, mlp_norm_bias = ir::kNoValue;  // [C]
  ir::ValueId up_weight = ir::kNoValue, up_bias = ir::kNoValue;      // [I, C]; gated: [2I, C], gate first
  ir::ValueId down_weight = ir::kNoValue, down_bias = ir::kNoValue;  // [C, I]
  ir::ValueId head_weight = ir::kNoValue,
              head_bias = ir::kNoValue;  // [V, C], or the token embedding when tied
};

Parameters declare_parameters(ir::Graph& graph, const spec::Spec& spec);

// Rows that the token embedding and the head's matrix have in memory: on a GPU model.vocab_size rounded up,
// so that products over the vocabulary run on aligned tiles. The rows beyond it are 0 and stay 0; checkpoints
// do not have them.
int64_t vocab_rows(const spec::Spec& spec);

// Rows of a parameter that its checkpoint names; those beyond are padding.
int64_t checkpoint_rows(const ir::Value& parameter);

// Elements a slot of a parameter takes in the pack: its own, rounded up so that every slot starts aligned.
int64_t padded_elements(const ir::Shape& shape);

// The pack is declared as [rows, kPackRow], and the decayed part ends at a whole row.
inline constexpr int64_t kPackRow = 1024;

struct Pack {
  ir::ValueId parameters = ir::kNoValue;  // [rows, kPackRow]
  ir::ValueId gradients = ir::kNoValue;   // the same, once differentiated
  int64_t decayed_rows = 0;
};

// Gives every parameter its place; their views lead into the pack.
Pack pack_parameters(ir::Graph& graph);
// Packs the gradients "d_<parameter>" the same way. Every parameter has one.
void pack_gradients(ir::Graph& graph, Pack& pack);

// The names under which Hugging Face's config.json and safetensors know this architecture: "gpt2", "llama",
// "qwen2", "qwen3", or "hydrac" for one that none of them can express (names then follow Llama's).
std::string checkpoint_architecture(const spec::Spec& spec);

}  // namespace hydrac::models
