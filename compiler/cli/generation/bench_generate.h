// `hydrac bench SPEC --generate`: how fast a model generates, of random weights.
#pragma once
#include "cli/generation/generation_plan.h"
#include "cli/input/arguments.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Prints the speed of generation for a full batch of texts, each with --prompt-tokens and
// sample.max_new_tokens, sampled as the spec's `sample` says.
int bench_generate(const Arguments& arguments, const spec::Spec& spec, const models::Generation& generation);

}  // namespace hydrac::cli
