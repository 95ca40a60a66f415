#include "cli/generation/bench_generate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/build_program.h"
#include "cli/generation/random_texts.h"
#include "cli/generation/sample_texts.h"
#include "cli/input/spec_input.h"
#include "cli/output/kernel_rows.h"
#include "cli/verb.h"
#include "driver/floor.h"
#include "runtime/log/units.h"
#include "runtime/train/generation/generate.h"

namespace hydrac::cli {

int bench_generate(const Arguments& arguments, const spec::Spec& spec, const models::Generation& generation) {
  BuildOptions options;
  options.generation = generation;
  const BuiltProgram built = build_program(spec, options);
  runtime::StepProgram& program = built.program->steps();
  program.initialize();
  const NoText tokenizer(spec.model.vocab_size);
  const int64_t prompt_tokens = arguments.number("--prompt-tokens", kBenchPromptTokens);
  std::vector<runtime::TextRequest> requests;
  for (std::vector<int32_t>& prompt :
       random_prompts(generation.sequences, prompt_tokens, spec.model.vocab_size))
    requests.push_back({std::move(prompt), requests.size()});
  runtime::GenerateOptions generate;
  generate.sampling = sample_options(spec);
  generate.max_new_tokens = 2;
  generate_batch(program, tokenizer, requests, generate, {});  // caches and clocks settle
  generate.max_new_tokens = spec.sample.max_new_tokens;
  const runtime::GenerateCounts counts = generate_batch(program, tokenizer, requests, generate, {});
  const driver::Peaks peaks = driver::peaks_of(*targets::find(spec.target), spec.optimizations.precision);
  const std::vector<KernelRow> rows = kernel_rows(*built.program, {{"decode"}}, peaks);
  if (arguments.has("--json")) {
    const double seconds = counts.prefill_seconds + counts.decode_seconds;
    fmt::print("{}\n",
               nlohmann::ordered_json{{"spec", spec.name},
                                      {"target", spec.target},
                                      {"batch", generation.sequences},
                                      {"prompt_tokens", prompt_tokens},
                                      {"new_tokens", spec.sample.max_new_tokens},
                                      {"tokens_per_second", static_cast<double>(counts.new_tokens) / seconds},
                                      {"prefill_s", counts.prefill_seconds},
                                      {"decode_s", counts.decode_seconds},
                                      {"decode_steps", counts.decode_steps},
                                      {"planned_bytes", program.facts().arena_bytes},
                                      {"kernels", rows_json(rows)}}
                   .dump());
    return kFine;
  }
  fmt::print("{}: {} texts of {} + {} tokens side by side\n{}\n{} of tensor memory planned\n{}\n", spec.name,
             generation.sequences, prompt_tokens, spec.sample.max_new_tokens, speed_text(counts),
             runtime::human_bytes(static_cast<uint64_t>(program.facts().arena_bytes)), program.description());
  print_rows(rows);
  return kFine;
}

}  // namespace hydrac::cli
