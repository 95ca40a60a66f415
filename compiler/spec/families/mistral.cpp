// Llama without biases, with a sliding window in every layer.
#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hf_keys.h"

namespace hydrac::spec {
namespace {

// A key that nobody wrote is Hugging Face's default; null is no window.
void read_window_of_all(HfKeys& keys, const FamilyRow& row) {
  if (keys.config().find(row.theirs) == nullptr) keys.constant(row.theirs, row.value);
  keys.windows(false);
}

std::string write_window_of_all(const Spec& spec, const FamilyRow&) {
  return spec.model.sliding_window > 0 ? std::to_string(spec.model.sliding_window) : "null";
}

bool is_in_all_layers(const Spec& spec, const FamilyRow&) {
  return spec.model.sliding_window == 0 || spec.model.sliding_window_pattern == 0;
}

}  // namespace

Family mistral() {
  const Rows own = {
      only("model.qk_norm", "false"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      {"sliding_window", "model.sliding_window", "4096", read_window_of_all, write_window_of_all},
      rule("model.sliding_window_pattern", "windows in all layers or in none", is_in_all_layers),
  };
  return {.model_type = "mistral",
          .name = "Mistral",
          .rows = joined({llama_rows({.model_type = R"("mistral")",
                                      .architectures = R"(["MistralForCausalLM"])",
                                      .key_value_heads = "8"}),
                          own, last_rows()}),
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
