// Attention and a gated mlp that read one layernorm without bias, side by side, and a factor of the logits.
// The second generation has rope in layers with a window alone.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

namespace {

Rows shared_rows(std::string_view model_type, std::string_view architectures, std::string_view theta) {
  return joined(
      {plain_rows(),
       input_norm_rows(),
       plain_stream_rows({"model.logit_scale"}),
       {only("model.rope_local_theta", "0.0", "one base of rope")},
       rope_rows({.model_type = model_type,
                  .architectures = architectures,
                  .key_value_heads = "",
                  .norm_eps = "1e-5",
                  .tied = "true",
                  .norm_eps_key = "layer_norm_eps",
                  .theta = theta,
                  .interleaves = true,
                  .has_layernorm = true,
                  .has_norm_bias = false,
                  .block = "parallel_one_norm"}),
       {optional("logit_scale", "model.logit_scale", "0.0625"), only("model.qk_norm", "false"),
        attention_biases(), fixed("model.mlp_bias", "false"), heads_fill_width(), no_padding(),
        refused_unless("use_qk_norm", "false", "layernorms of queries and keys are not supported")}});
}

}  // namespace

Family cohere() {
  return {.model_type = "cohere",
          .name = "Cohere",
          .rows = joined(
              {shared_rows(R"("cohere")", R"(["CohereForCausalLM"])", "500000"),
               {only("model.sliding_window", "0"), only("model.no_rope_pattern", "0", "rope in all layers")},
               last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

Family cohere2() {
  return {.model_type = "cohere2",
          .name = "Cohere 2",
          .rows = joined({shared_rows(R"("cohere2")", R"(["Cohere2ForCausalLM"])", "10000"),
                          window_rows("4096", "4"),
                          {window_anyway()},
                          rope_in_windows_rows("1"),
                          last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
