// Norms of the branches' outputs and of each query and key; rope only in layers with a window, where others
// have none.
#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hf_keys.h"

namespace hydrac::spec {
namespace {

// Read behind the windows.
void read_layers(HfKeys& keys, const FamilyRow&) {
  const Node* period = keys.so_far("sliding_window_pattern");
  const bool has_window = keys.so_far("sliding_window") != nullptr;
  // A window that no layer has leaves all without rope.
  const bool is_unused = !has_window && keys.take("sliding_window") != nullptr;
  if (period != nullptr) keys.set("no_rope_pattern", period->where, *period);
  if (is_unused) keys.constant("no_rope_pattern", "1");
}

bool is_hybrid(const Spec& spec, const FamilyRow&) {
  const Model& m = spec.model;
  return m.no_rope_pattern == (m.sliding_window > 0 ? m.sliding_window_pattern : 0);
}

}  // namespace

Family exaone4() {
  const Rows own = {
      fixed("model.norm_placement", "output", "norms of a branch's output alone"),
      fixed("model.qk_norm", "true"),
      only("model.qk_norm_scope", "head", "those of each head by itself"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      only("model.rope_local_theta", "0.0", "one base of rope"),
  };
  const Rows layers = {{.theirs = "",
                        .ours = "model.no_rope_pattern",
                        .value = "",
                        .read = read_layers,
                        .holds = is_hybrid,
                        .has = "rope in layers with a window, and in all where none has one"}};
  return {.model_type = "exaone4",
          .name = "EXAONE 4",
          .rows = joined({plain_rows(), plain_stream_rows(),
                          rope_rows({.model_type = R"("exaone4")",
                                     .architectures = R"(["Exaone4ForCausalLM"])",
                                     .key_value_heads = "32",
                                     .norm_eps = "1e-5"}),
                          own, window_rows("4096", "4"), layers, last_rows()}),
          .modules = olmo2().modules};
}

}  // namespace hydrac::spec
