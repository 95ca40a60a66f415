#include "cli/bench_generate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/build_program.h"
#include "cli/kernel_rows.h"
#include "cli/sample_texts.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "driver/floor.h"
#include "runtime/data/hash.h"
#include "runtime/log/units.h"
#include "runtime/train/generate.h"

namespace hydrac::cli {

namespace {

// Ids alone, without text or an end of it.
class NoText final : public runtime::Tokenizer {
 public:
  explicit NoText(int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view token_bytes(int32_t) const override { return ""; }
  int64_t vocab_size() const override { return vocabulary_; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  bool is_special(int32_t) const override { return true; }
  std::string_view name() const override { return "none"; }
  std::string to_json() const override { return "{}"; }

 private:
  void do_encode(std::string_view, std::vector<int32_t>&, const ByteProgress&) const override {}
  uint64_t fingerprint_bits() const override { return 0; }

  int64_t vocabulary_;
};

std::vector<runtime::TextRequest> random_prompts(int64_t count, int64_t tokens, int64_t vocabulary) {
  std::vector<runtime::TextRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    runtime::TextRequest request{{}, static_cast<uint64_t>(i)};
    for (int64_t t = 0; t < tokens; ++t)
      request.prompt.push_back(static_cast<int32_t>(runtime::mix64(static_cast<uint64_t>(i * tokens + t)) %
                                                    static_cast<uint64_t>(vocabulary)));
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace

int bench_generate(const Arguments& arguments, const spec::Spec& spec, const models::Generation& generation) {
  BuildOptions options;
  options.generation = generation;
  const BuiltProgram built = build_program(spec, options);
  runtime::StepProgram& program = built.program->steps();
  program.initialize();
  const NoText tokenizer(spec.model.vocab_size);
  const int64_t prompt_tokens = arguments.number("--prompt-tokens", kBenchPromptTokens);
  const std::vector<runtime::TextRequest> requests =
      random_prompts(generation.sequences, prompt_tokens, spec.model.vocab_size);
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
                                      {"planned_bytes", program.arena_bytes()},
                                      {"kernels", rows_json(rows)}}
                   .dump());
    return kFine;
  }
  fmt::print("{}: {} texts of {} + {} tokens side by side\n{}\n{} of tensor memory planned\n{}\n", spec.name,
             generation.sequences, prompt_tokens, spec.sample.max_new_tokens, speed_text(counts),
             runtime::human_bytes(static_cast<uint64_t>(program.arena_bytes())), program.description());
  print_rows(rows);
  return kFine;
}

}  // namespace hydrac::cli
