#include "cli/generation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cli/inference.h"
#include "driver/generation.h"
#include "models/adapter.h"
#include "runtime/error.h"
#include "targets/target.h"

namespace hydrac::cli {

namespace {

// Powers of two from 32, above 128 its multiples.
int64_t rounded(int64_t tokens) {
  constexpr int64_t least = 32, step = 128;
  if (tokens > step) return (tokens + step - 1) / step * step;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(tokens, least))));
}

int64_t positive_option(const Arguments& arguments, const std::string& option, int64_t fallback) {
  const int64_t number = arguments.number(option, fallback);
  if (number < 1) throw runtime::InputError(fmt::format("{} is {}; it must be 1 or more", option, number));
  return number;
}

}  // namespace

models::Generation plan_generation(spec::Spec& spec, const GenerationNeeds& needs) {
  spec.train.micro_batch_size = spec.train.gradient_accumulation_steps = 1;
  spec.parallel.data = spec.parallel.tensor = 1;
  spec.objective.name = spec::ObjectiveName::none;
  spec.parallel.zero = 0;
  spec.optimizations.offload.weights = 0;
  const bool fits = needs.longest_prompt + needs.new_tokens <= needs.context_limit;
  const auto context = [&](int64_t tokens) { return std::min(needs.context_limit, rounded(tokens)); };
  spec.train.sequence_len = fits ? context(needs.longest_prompt + needs.new_tokens) : needs.context_limit;
  models::Generation generation{.sequences = needs.sequences};
  generation.prompt_tokens = fits ? context(needs.longest_prompt) : needs.context_limit;
  generation.prompts = driver::prompts_at_once(spec, generation.sequences, generation.prompt_tokens);
  generation.top = driver::top_logits(spec);
  return generation;
}

void leave_training_as_it_is(const Arguments& arguments, spec::Spec& spec) {
  if (arguments.has("--generate")) spec.optimizations.fit = spec::Fit::none;
}

std::optional<models::Generation> generation_option(const Arguments& arguments, spec::Spec& spec) {
  if (!arguments.has("--generate")) {
    for (const char* option : {"--batch", "--prompt-tokens"})
      if (arguments.has(option)) throw runtime::InputError(fmt::format("{} is for --generate", option));
    return std::nullopt;
  }
  if (spec.model.head != spec::Head::language_model)
    throw runtime::InputError("--generate: the spec's model is no language model");
  GenerationNeeds needs{.sequences = positive_option(arguments, "--batch", 1),
                        .longest_prompt = positive_option(arguments, "--prompt-tokens", kBenchPromptTokens),
                        .new_tokens = spec.sample.max_new_tokens,
                        .context_limit = spec.model.max_position_embeddings};
  if (needs.longest_prompt + needs.new_tokens > needs.context_limit)
    throw runtime::InputError(fmt::format(
        "--prompt-tokens {} and sample.max_new_tokens {} are more than the {} positions of the model",
        needs.longest_prompt, needs.new_tokens, needs.context_limit));
  if (!models::has_adapters(spec)) freeze_for_inference(spec);
  return plan_generation(spec, needs);
}

}  // namespace hydrac::cli
