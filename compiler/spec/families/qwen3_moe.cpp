// Qwen3 with experts of a width of their own in every layer.
#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"

namespace hydrac::spec {
namespace {

void read_dense_layers(HfKeys& keys, const FamilyRow& row) {
  const Entry* layers = keys.take(row.theirs);
  if (layers != nullptr && !layers->value.items.empty())
    keys.unsupported(layers->value.where, "layers without experts are not supported");
}

}  // namespace

Family qwen3_moe() {
  const Rows own = {
      fixed("model.qk_norm", "true"),
      only("model.qk_norm_scope", "head", "those of each head by itself"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      optional("moe_intermediate_size", "model.moe.intermediate_size", "768"),
      normalized_weights(),
      {.theirs = "mlp_only_layers", .ours = "", .value = "", .read = read_dense_layers},
      refused_unless("decoder_sparse_step", "1", "layers without experts are not supported"),
  };
  return {
      .model_type = "qwen3_moe",
      .name = "Qwen3 MoE",
      .rows = joined(
          {llama_rows({.model_type = R"("qwen3_moe")",
                       .architectures = R"(["Qwen3MoeForCausalLM"])",
                       .key_value_heads = "4",
                       .has_experts = true}),
           own, expert_rows({.count = "num_experts", .experts = "128", .top_k = "8", .aux_loss = "0.001"}),
           no_window_rows(), last_rows()}),
      .modules = llama_modules(),
      .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
