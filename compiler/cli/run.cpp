// `hydrac SPEC`: compile and train.
#include "cli/build_program.h"
#include "cli/locked_spec.h"
#include "cli/program_memory.h"
#include "cli/spec_input.h"
#include "cli/train_settings.h"
#include "cli/verb.h"
#include "runtime/app/train_run.h"
#include "runtime/log/signal.h"

namespace hydrac::cli {

namespace {

runtime::Resume resume_option(const Arguments& arguments) {
  const std::optional<std::string> value = arguments.value("--resume");
  if (!value) return runtime::Resume::never;
  return value->empty() ? runtime::Resume::required : runtime::Resume::if_possible;
}

}  // namespace

int run_verb(const Arguments& arguments) {
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  spec::Spec* const spec = &locked->spec;
  runtime::ignore_write_signals();
  require_runnable(*spec);  // tokenizing a corpus takes minutes
  const bool quiet = arguments.has("--quiet");
  const runtime::Corpus corpus = open_corpus(*spec, quiet, memory_option(arguments));
  runtime::TrainSettings settings = train_settings(*spec);
  settings.train.resume = resume_option(arguments);
  settings.train.exact = arguments.has("--exact");
  settings.train.quiet = quiet;
  settings.choices = locked->choices;
  BuiltProgram built;
  return train_run(std::move(settings), corpus,
                   [&](const runtime::RecordedChoices& recorded) -> runtime::StepProgram& {
                     BuildOptions options = build_options(arguments);
                     options.recorded = recorded;
                     built = build_program(*spec, options);
                     // A checkpoint's choices, where there is one, are compared as the run goes on from it.
                     if (recorded == locked->choices)
                       compare_with_lock(arguments, *locked, built.program->steps().choices());
                     if (arguments.has("--check-kernels")) built.program->steps().check_kernels();
                     return built.program->steps();
                   });
}

}  // namespace hydrac::cli
