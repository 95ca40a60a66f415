// The program that generates: what of a spec becomes a plan for prompts, texts and their cache.
#pragma once
#include <optional>

#include "cli/input/arguments.h"
#include "models/transformer.h"
#include "spec/spec.h"

namespace hydrac::cli {

inline constexpr int64_t kBenchPromptTokens = 128;  // of --generate, without --prompt-tokens

// Lengths of what is to be generated, in tokens.
struct GenerationNeeds {
  int64_t sequences = 1;       // side by side
  int64_t longest_prompt = 1;  // at most context_limit
  int64_t new_tokens = 0;      // of a text, at most
  int64_t context_limit = 1;   // what the model sees at most
};

// Turns the spec into that of a program that only generates, with train.sequence_len as its context. The
// context is as long as needed, at most the limit, and rounded up to one of a few lengths, since each is
// compiled. If texts grow past the limit, prompts may be as long as the context, so that texts continue with
// their last tokens in view (generate_batch()). With sample.cache_memory the cache is a pool of pages; prints
// and throws Reported if it does not hold the longest text.
models::Generation plan_generation(spec::Spec& spec, const GenerationNeeds& needs);

// With --generate: what optimizations.fit would choose is for training, and is left as it is.
void leave_training_as_it_is(const Arguments& arguments, spec::Spec& spec);

// --generate of verbs that take a spec, with --batch and --prompt-tokens: plans texts of
// sample.max_new_tokens, with random weights. nullopt without --generate. InputError if an option is out of
// range or the spec is no language model.
std::optional<models::Generation> generation_option(const Arguments& arguments, spec::Spec& spec);

}  // namespace hydrac::cli
