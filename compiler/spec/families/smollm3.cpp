// Llama without rope in every few layers.
#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"

namespace hydrac::spec {
namespace {

void read_layers(HfKeys& keys, const FamilyRow& row) {
  keys.layers_without_rope(row.theirs, "no_rope_layer_interval", row.value);
}

std::string write_layers(const Spec& spec, const FamilyRow&) {
  const Model& m = spec.model;
  std::string layers;
  for (int64_t layer = 1; layer <= m.num_hidden_layers; ++layer) {
    const bool has_rope = m.no_rope_pattern == 0 || layer % m.no_rope_pattern != 0;
    layers += std::string(layer > 1 ? ", " : "") + (has_rope ? "1" : "0");
  }
  return "[" + layers + "]";
}

}  // namespace

Family smollm3() {
  const Rows own = {
      only("model.qk_norm", "false"),
      no_padding(),
      only("model.rope_local_theta", "0.0", "one base of rope"),
      attention_biases(),
      optional("mlp_bias", "model.mlp_bias", "false"),
      {"no_rope_layers", "model.no_rope_pattern", "4", read_layers, write_layers},
  };
  return {.model_type = "smollm3",
          .name = "SmolLM3",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(),
                          rope_rows({.model_type = R"("smollm3")",
                                     .architectures = R"(["SmolLM3ForCausalLM"])",
                                     .key_value_heads = "4",
                                     .tied = "true",
                                     .theta = "2000000"}),
                          own, no_window_rows(), last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
