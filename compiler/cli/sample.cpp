// `hydrac sample RUN`: text from a run's newest checkpoint, or from one that is named.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <span>

#include "cli/build_program.h"
#include "cli/checkpoint_source.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "runtime/text/tokenizers.h"
#include "runtime/train/console.h"
#include "runtime/train/generate.h"
#include "runtime/train/run_checkpoint.h"
#include "runtime/train/run_folder.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;

namespace {

// Options of the verb are overrides of the spec's section `sample`.
Arguments with_overrides(Arguments arguments, const std::string& run) {
  static const std::pair<const char*, const char*> keys[] = {{"--prompt", "prompt"},
                                                             {"--max-new-tokens", "max_new_tokens"},
                                                             {"--temperature", "temperature"},
                                                             {"--top-k", "top_k"},
                                                             {"--top-p", "top_p"},
                                                             {"--seed", "seed"}};
  for (const auto& [option, key] : keys) {
    const std::optional<std::string> value = arguments.value(option);
    if (!value) continue;
    const bool is_text = std::string(key) == "prompt";
    if (!is_text) require_option(option, fmt::format("sample.{}", key), *value);
    arguments.overrides.push_back(fmt::format("sample.{}={}", key, is_text ? yaml_quoted(*value) : *value));
  }
  // The run's own spec names the folder it was written to; what is sampled is the folder that was asked for.
  arguments.overrides.push_back("output.dir=" + yaml_quoted(run));
  arguments.positional[0] = runtime::spec_path(run).string();
  return arguments;
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

}  // namespace

int sample_verb(const Arguments& given) {
  if (given.positional.empty()) throw InputError("which run? Give its folder");
  const auto [run, dir] = checkpoint_source(given.positional[0]);
  std::optional<spec::Spec> spec = load(with_overrides(given, run));
  if (!spec) return kBadInput;
  if (!fs::exists(dir / "tokenizer.json"))
    throw InputError(given.positional[0] + " is no language model: there is no text to sample");
  const auto tokenizer = runtime::load_tokenizer(dir / "tokenizer.json");
  complete_from_data(*spec, tokenizer.get());
  BuildOptions build;
  build.recorded = runtime::read_choices(dir).value_or(runtime::RecordedChoices());
  const BuiltProgram built = build_program(*spec, build);
  runtime::StepProgram& program = built.program->steps();
  program.initialize();
  runtime::load_parameters(program, dir);
  runtime::GenerateOptions options;
  options.prompt = spec->sample.prompt;
  options.max_new_tokens = spec->sample.max_new_tokens;
  options.sampling = sample_options(*spec);
  if (given.has("--logits")) {
    print_logits(program, *tokenizer, options);
    return kFine;
  }
  runtime::install_stop_handlers();
  fmt::print("{}", runtime::printable(options.prompt));
  runtime::generate(program, *tokenizer, options, [](std::string_view text) {
    fmt::print("{}", runtime::printable(text));
    std::fflush(stdout);
  });
  fmt::print("\n");
  return runtime::stop_requested() ? runtime::kExitInterrupted : kFine;
}

}  // namespace hydrac::cli
