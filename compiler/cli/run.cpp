// `hydrac SPEC`: compile and train, alone or as one of several ranks.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/locked_spec.h"
#include "cli/program_memory.h"
#include "cli/spec_input.h"
#include "cli/train_settings.h"
#include "cli/verb.h"
#include "cli/version.h"
#include "runtime/app/train_run.h"
#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "runtime/parallel/ranks.h"
#include "tune/machine.h"

namespace hydrac::cli {

namespace {

runtime::Resume resume_option(const Arguments& arguments) {
  const std::optional<std::string> value = arguments.value("--resume");
  if (!value) return runtime::Resume::never;
  return value->empty() ? runtime::Resume::required : runtime::Resume::if_possible;
}

// Null where this process trains alone.
std::unique_ptr<runtime::Ranks> ranks_of(const spec::Spec& spec, bool quiet) {
  const auto wanted = static_cast<int>(spec.parallel.data);
  const std::optional<runtime::World> started = runtime::world_of_environment();
  if (started && started->size != wanted)
    throw runtime::InputError(
        fmt::format("{} started {} ranks, and parallel.data is {}: write parallel.data={}, or start as many",
                    started->launcher, started->size, wanted, started->size));
  if (wanted == 1) return nullptr;
  if (const int cores = tune::usable_cores(); wanted > cores && !quiet && (!started || started->rank == 0))
    fmt::print(stderr, "note: {} ranks take turns on {} cores\n", wanted, cores);
  if (started) return std::make_unique<runtime::Ranks>(*started, std::vector<std::string>());
  return std::make_unique<runtime::Ranks>(runtime::own_world(wanted), runtime::own_command());
}

// Rank 0's choices come when its program is made: kernels are compiled then, matmuls measured, and texts
// tokenized, for all of them.
void follow(runtime::Ranks& ranks, LockedSpec& locked) {
  ranks.assemble();
  locked.choices = runtime::RecordedChoices::from_json(ranks.share(""), "rank 0's choices");
}

int train(const Arguments& arguments, LockedSpec& locked, runtime::Ranks* ranks) {
  spec::Spec* const spec = &locked.spec;
  const bool quiet = arguments.has("--quiet"), leads = !ranks || ranks->leads();
  if (!leads) follow(*ranks, locked);
  const runtime::Corpus corpus = open_corpus(*spec, quiet || !leads, memory_option(arguments));
  runtime::TrainSettings settings = train_settings(*spec);
  settings.train.resume = resume_option(arguments);
  settings.train.exact = arguments.has("--exact");
  settings.train.quiet = quiet;
  settings.choices = locked.choices;
  settings.version = version_line();
  BuiltProgram built;
  const auto make = [&](const runtime::RecordedChoices& recorded) -> runtime::LaidOutProgram& {
    BuildOptions options = build_options(arguments);
    options.recorded = recorded;
    built = build_program(*spec, options);
    // A checkpoint's choices, where there is one, are compared as the run goes on from it.
    if (leads && recorded == locked.choices)
      compare_with_lock(arguments, locked, built.program->steps().choices());
    if (arguments.has("--check-kernels")) built.program->steps().check_kernels();
    return built.program->steps();
  };
  return train_run(std::move(settings), corpus, make, ranks);
}

}  // namespace

int run_verb(const Arguments& arguments) {
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  runtime::ignore_write_signals();
  require_runnable(locked->spec);  // tokenizing a corpus takes minutes
  const std::unique_ptr<runtime::Ranks> ranks = ranks_of(locked->spec, arguments.has("--quiet"));
  if (!ranks) return train(arguments, *locked, nullptr);
  try {
    const int code = train(arguments, *locked, ranks.get());
    ranks->finish();
    return code;
  } catch (const std::exception& error) {
    ranks->fail(error.what());
    throw;
  } catch (const Reported&) {
    ranks->fail("its spec or its data cannot be used");
    throw;
  }
}

}  // namespace hydrac::cli
