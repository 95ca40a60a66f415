// `hydrac sample RUN`: text from a run's newest checkpoint.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "runtime/text/tokenizers.h"
#include "runtime/train/console.h"
#include "runtime/train/generate.h"
#include "runtime/train/run_checkpoint.h"
#include "runtime/train/run_folder.h"

namespace hydrac::cli {

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
    arguments.overrides.push_back(
        fmt::format("sample.{}={}", key, is_text ? yaml_quoted(*value) : *value));
  }
  // The run's own spec names the folder it was written to; what is sampled is the folder that was asked for.
  arguments.overrides.push_back("output.dir=" + yaml_quoted(run));
  arguments.positional[0] = runtime::spec_path(run).string();
  return arguments;
}

}  // namespace

int sample_verb(const Arguments& given) {
  if (given.positional.empty()) throw runtime::InputError("which run? Give its folder");
  const std::string run = given.positional[0];
  const runtime::CheckpointSearch search = runtime::find_latest(run);
  for (const auto& rejected : search.rejected)
    fmt::print(stderr, "passing over {}: {}\n", rejected.dir.string(), rejected.reason);
  if (!search.latest) throw runtime::InputError(run + " holds no complete checkpoint");
  std::optional<spec::Spec> spec = load(with_overrides(given, run));
  if (!spec) return kBadInput;
  const std::filesystem::path dir = search.latest->dir;
  if (!std::filesystem::exists(dir / "tokenizer.json"))
    throw runtime::InputError(run + " is no language model: there is no text to sample");
  const auto tokenizer = runtime::load_tokenizer(dir / "tokenizer.json");
  complete_from_data(*spec, tokenizer.get());
  const BuiltProgram built = build_program(*spec);
  runtime::StepProgram& program = built.program->steps();
  program.initialize();
  runtime::load_parameters(program, dir);
  runtime::GenerateOptions options;
  options.prompt = spec->sample.prompt;
  options.max_new_tokens = spec->sample.max_new_tokens;
  options.sampling = sample_options(*spec);
  runtime::install_stop_handlers();
  fmt::print("{}", runtime::printable(options.prompt));
  runtime::generate(program, *tokenizer, options, [](std::string_view text) {
    fmt::print("{}", runtime::printable(text));
    std::fflush(stdout);
  });
  fmt::print("\n");
  return kFine;
}

}  // namespace hydrac::cli
