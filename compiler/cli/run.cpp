// `hydrac SPEC`: compile and train.
#include "cli/build_program.h"
#include "cli/spec_input.h"
#include "cli/train_settings.h"
#include "cli/verb.h"
#include "runtime/app/train_run.h"

namespace hydrac::cli {

int run_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  require_runnable(*spec);  // tokenizing a corpus takes minutes
  const bool quiet = arguments.has("--quiet");
  const runtime::Corpus corpus = open_corpus(*spec, quiet);
  runtime::TrainSettings settings = train_settings(*spec);
  settings.train.resume = arguments.has("--resume");
  settings.train.exact = arguments.has("--exact");
  settings.train.quiet = quiet;
  BuiltProgram built;
  train_run(std::move(settings), corpus,
            [&](const runtime::RecordedChoices& recorded) -> runtime::StepProgram& {
              BuildOptions options = build_options(arguments);
              options.recorded = recorded;
              built = build_program(*spec, options);
              if (arguments.has("--check-kernels")) built.program->steps().check_kernels();
              return built.program->steps();
            });
  return kFine;
}

}  // namespace hydrac::cli
