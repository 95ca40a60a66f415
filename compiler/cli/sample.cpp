// `hydrac sample RUN`: text from a run's newest checkpoint, from one that is named, or from a model's folder
// as Hugging Face publishes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <span>

#include "cli/build_program.h"
#include "cli/checkpoint_source.h"
#include "cli/inference.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "runtime/text/text_corpus.h"
#include "runtime/text/tokenizers.h"
#include "runtime/train/console.h"
#include "runtime/train/generate.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run_checkpoint.h"
#include "runtime/train/run_folder.h"
#include "spec/load.h"
#include "targets/cuda/machine.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;

namespace {

// Options of the verb are overrides of the spec's section `sample`.
std::vector<std::string> overrides_of(const Arguments& arguments) {
  static const std::pair<const char*, const char*> keys[] = {{"--prompt", "prompt"},
                                                             {"--max-new-tokens", "max_new_tokens"},
                                                             {"--temperature", "temperature"},
                                                             {"--top-k", "top_k"},
                                                             {"--top-p", "top_p"},
                                                             {"--seed", "seed"}};
  std::vector<std::string> overrides = arguments.overrides;
  for (const auto& [option, key] : keys) {
    const std::optional<std::string> value = arguments.value(option);
    if (!value) continue;
    const bool is_text = std::string(key) == "prompt";
    if (!is_text) require_option(option, fmt::format("sample.{}", key), *value);
    overrides.push_back(fmt::format("sample.{}={}", key, is_text ? yaml_quoted(*value) : *value));
  }
  return overrides;
}

// The run's own spec names the folder it was written to; what is sampled is the folder that was asked for.
// Its cores are those of the machine that trained.
std::optional<spec::Spec> spec_of_run(Arguments arguments, const fs::path& run) {
  arguments.overrides = overrides_of(arguments);
  arguments.overrides.push_back("output.dir=" + yaml_quoted(run.string()));
  arguments.overrides.emplace_back("train.cpu_affinity=none");
  arguments.positional[0] = runtime::spec_path(run).string();
  return load(arguments);
}

// Whether the folder is no run's and no checkpoint, but a model's, as model.from takes it.
bool is_model(const fs::path& folder) {
  return fs::exists(folder / "config.json") && !fs::exists(runtime::metrics_path(folder)) &&
         !fs::exists(folder / runtime::manifest_name);
}

// Its sequences are as long as prompt and text need, and no longer than the model reads; of few lengths,
// since each is compiled.
int64_t context_for(const spec::Spec& spec, const runtime::Tokenizer& tokenizer) {
  constexpr uint64_t kLeast = 128;
  const auto prompt =
      runtime::prompt_ids(tokenizer, {.prompt = spec.sample.prompt, .sampling = sample_options(spec)});
  const uint64_t needed = prompt.size() + static_cast<uint64_t>(spec.sample.max_new_tokens);
  return std::min(spec.model.max_position_embeddings,
                  static_cast<int64_t>(std::bit_ceil(std::max(needed, kLeast))));
}

std::optional<spec::Spec> spec_of_model(const Arguments& arguments, const fs::path& folder) {
  std::vector<std::string> overrides = overrides_of(arguments);
  overrides.push_back("model.from=" + yaml_quoted(folder.string()));
  if (const auto threads = arguments.value("--threads")) {
    require_option("--threads", "optimizations.threads", *threads);
    overrides.push_back("optimizations.threads=" + *threads);
  }
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text(
      "sample.yaml",
      "name: sample\ndata: {path: none}\ntrain: {sequence_len: 1, micro_batch_size: 1, max_steps: 1}\n",
      overrides, diagnostics, targets::detected_gpu().value_or("cpu"));
  if (!spec) print_diagnostics(arguments, diagnostics, false);
  return spec;
}

// {"tokens": [ids of the prompt], "logits": [of each id as the next token]}, with as many digits as a float
// has.
void print_logits(runtime::StepProgram& program, const runtime::Tokenizer& tokenizer,
                  const runtime::GenerateOptions& options) {
  const std::vector<int32_t> ids = runtime::prompt_ids(tokenizer, options);
  if (static_cast<int64_t>(ids.size()) > program.context_length())
    throw InputError(fmt::format("the prompt has {} tokens, and the model was trained on {}", ids.size(),
                                 program.context_length()));
  const std::span<const float> logits = program.next_logits(ids, static_cast<int64_t>(ids.size()) - 1);
  fmt::print("{{\"tokens\": [{}], \"logits\": [{}]}}\n", fmt::join(ids, ", "), fmt::join(logits, ", "));
}

int print_sample(const Arguments& arguments, const spec::Spec& spec, runtime::StepProgram& program,
                 const runtime::Tokenizer& tokenizer) {
  runtime::GenerateOptions options;
  options.prompt = spec.sample.prompt;
  options.max_new_tokens = spec.sample.max_new_tokens;
  options.sampling = sample_options(spec);
  if (arguments.has("--logits")) {
    print_logits(program, tokenizer, options);
    return kFine;
  }
  runtime::install_stop_handlers();
  fmt::print("{}", runtime::printable(options.prompt));
  runtime::generate(program, tokenizer, options, [](std::string_view text) {
    fmt::print("{}", runtime::printable(text));
    std::fflush(stdout);
  });
  fmt::print("\n");
  return runtime::stop_requested() ? runtime::kExitInterrupted : kFine;
}

int sample_run(const Arguments& arguments) {
  const auto [run, dir] = checkpoint_source(arguments.positional[0]);
  std::optional<spec::Spec> spec = spec_of_run(arguments, run);
  if (!spec) return kBadInput;
  if (!fs::exists(dir / "tokenizer.json"))
    throw InputError(arguments.positional[0] + " is no language model: there is no text to sample");
  const auto tokenizer = runtime::load_tokenizer(dir / "tokenizer.json");
  complete_from_data(*spec, tokenizer.get());
  BuildOptions build;
  build.recorded = runtime::read_choices(dir).value_or(runtime::RecordedChoices());
  const BuiltProgram built = build_program(*spec, build);
  runtime::StepProgram& program = built.program->steps();
  fill_from_checkpoint(program, *spec, dir);
  return print_sample(arguments, *spec, program, *tokenizer);
}

int sample_model(const Arguments& arguments, const fs::path& folder) {
  std::optional<spec::Spec> spec = spec_of_model(arguments, folder);
  if (!spec) return kBadInput;
  if (spec->model.head != spec::Head::language_model)
    throw InputError(folder.string() + " is no language model: there is no text to sample");
  const runtime::WeightFiles weights(spec->model.weights);  // what is damaged is said before time is spent
  const auto tokenizer = runtime::open_tokenizer(data_settings(*spec));
  complete_from_data(*spec, tokenizer.get());
  spec->train.sequence_len = context_for(*spec, *tokenizer);
  freeze_for_inference(*spec);
  const BuiltProgram built = build_program(*spec);
  runtime::StepProgram& program = built.program->steps();
  program.initialize();
  weights.fill(program);
  return print_sample(arguments, *spec, program, *tokenizer);
}

}  // namespace

int sample_verb(const Arguments& arguments) {
  if (arguments.positional.empty()) throw InputError("which run? Give its folder");
  const fs::path folder = arguments.positional[0];
  return is_model(folder) ? sample_model(arguments, folder) : sample_run(arguments);
}

}  // namespace hydrac::cli
