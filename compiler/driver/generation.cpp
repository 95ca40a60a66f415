#include "driver/generation.h"

#include <algorithm>

#include "cuda/top_geometry.h"
#include "driver/pass_options.h"
#include "targets/target.h"

namespace hydrac::driver {

// Enough tokens to keep a GPU busy. One prompt keeps a processor busy, and work for absent prompts would be
// wasted.
int64_t prompts_at_once(const spec::Spec& spec, int64_t sequences, int64_t prompt_tokens) {
  constexpr int64_t gpu_tokens = 1024;
  if (targets::find(spec.target)->is_cpu()) return 1;
  return std::clamp<int64_t>(gpu_tokens / prompt_tokens, 1, sequences);
}

// A row of logits is small next to the cost of computing it on a processor.
int64_t top_logits(const spec::Spec& spec) {
  const bool finds = !targets::find(spec.target)->is_cpu() && cuda::finds_top(models::vocab_rows(spec));
  return finds ? cuda::kTop : 0;
}

int64_t page_bytes(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  return 2 * m.num_hidden_layers * m.num_key_value_heads * kPageTokens * m.head_dim *
         size_of(precision_of(spec).activations);
}

std::optional<models::Generation> generation_of_replies(const spec::Spec& spec) {
  if (!spec::samples_replies(spec)) return std::nullopt;
  const auto& o = spec.objective;
  const int64_t sequences = spec::prompts_of_rank(spec) * o.replies;
  const spec::Encoder* encoder = spec::encoder_of_replies(spec);
  return models::Generation{.sequences = sequences,
                            .prompts = prompts_at_once(spec, sequences, o.prompt_tokens),
                            .prompt_tokens = o.prompt_tokens,
                            .top = top_logits(spec),
                            .tokens = o.prompt_tokens + o.max_new_tokens,
                            .text_rows = encoder ? prompts_at_once(spec, sequences, encoder->max_tokens) : 1};
}

}  // namespace hydrac::driver
