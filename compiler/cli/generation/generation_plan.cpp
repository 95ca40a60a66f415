#include "cli/generation/generation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "cli/generation/inference.h"
#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "driver/generation.h"
#include "driver/memory_limit.h"
#include "models/adapter.h"
#include "runtime/error.h"
#include "targets/target.h"

namespace hydrac::cli {

namespace {

// A number of GiB of few digits, and not less than these bytes.
double gib_that_hold(int64_t bytes) {
  const double gib = static_cast<double>(bytes) / 0x1p30,
               digit = std::pow(10.0, std::floor(std::log10(gib)) - 3);
  return std::ceil(gib / digit) * digit;
}

// Powers of two from 32, above 128 its multiples.
int64_t rounded(int64_t tokens) {
  constexpr int64_t least = 32, step = 128;
  if (tokens > step) return (tokens + step - 1) / step * step;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(tokens, least))));
}

int64_t pages_of(int64_t tokens) {
  return (tokens + driver::kPageTokens - 1) / driver::kPageTokens;
}

// As many pages as sample.cache_memory holds, but no more than all texts can use. Reported if they do not
// hold the longest text, of so many tokens.
int64_t pages_of_pool(const spec::Spec& spec, int64_t sequences, int64_t longest) {
  const auto bytes = static_cast<int64_t>(spec.sample.cache_memory * 0x1p30);
  const int64_t page = driver::page_bytes(spec), least = pages_of(longest), pages = bytes / page;
  if (pages >= least) return std::min(pages, sequences * pages_of(spec.train.sequence_len));
  diag::Diagnostics diagnostics;
  diagnostics.report(
      diag::Kind::cache_too_small, spec.where("sample.cache_memory"),
      fmt::format("{} of keys and values are {} pages of {} tokens; a text of {} tokens needs {}, {}",
                  driver::bytes_text(bytes), pages, driver::kPageTokens, longest, least,
                  driver::bytes_text(least * page)),
      fmt::format("sample.cache_memory: {:.4g} is the least, 0 gives each text room for the longest",
                  gib_that_hold(least * page)));
  print_found_late(diagnostics);
  throw Reported{kBadInput};
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
  if (spec.sample.cache_memory > 0) {
    const int64_t longest = std::min(needs.longest_prompt + needs.new_tokens, needs.context_limit);
    generation.pages = pages_of_pool(spec, generation.sequences, longest);
    generation.page_tokens = driver::kPageTokens;
  }
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
