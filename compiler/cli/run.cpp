// `hydrac SPEC`: compile and train, alone or as one of several ranks.
#include <fmt/format.h>

#include <iterator>

#include "cli/build_program.h"
#include "cli/generation/reply_encoder.h"
#include "cli/input/locked_spec.h"
#include "cli/input/resumed_keys.h"
#include "cli/input/run_refusals.h"
#include "cli/input/spec_input.h"
#include "cli/input/train_settings.h"
#include "cli/output/program_memory.h"
#include "cli/verb.h"
#include "cli/version.h"
#include "runtime/app/run_ranks.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/exchange/communicator.h"
#include "runtime/parallel/world.h"
#include "targets/target.h"

namespace hydrac::cli {

namespace {

runtime::Resume resume_option(const Arguments& arguments) {
  const std::optional<std::string> value = arguments.value("--resume");
  if (!value) return runtime::Resume::never;
  return value->empty() ? runtime::Resume::required : runtime::Resume::if_possible;
}

// Said before anything is compiled. A launcher may show each rank one GPU.
void require_gpus_of_ranks(const spec::Spec& spec) {
  const int64_t ranks = spec::rank_count(spec);
  if (ranks == 1 || targets::find(spec.target)->is_cpu() || runtime::world_of_environment()) return;
  const auto gpus = std::ssize(runtime::cuda::devices());
  if (ranks <= gpus) return;
  diag::Diagnostics diagnostics;
  const char* key = spec.parallel.data > 1 ? "parallel.data" : "parallel.tensor";
  diagnostics.report(diag::Kind::option_unsupported, spec.where(key),
                     fmt::format("{} ranks need as many GPUs, and CUDA sees {}", ranks, gpus),
                     fmt::format("write {}, or let CUDA_VISIBLE_DEVICES name more GPUs", gpus));
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

int train(const Arguments& arguments, LockedSpec& locked, runtime::Ranks* ranks) {
  spec::Spec* const spec = &locked.spec;
  const bool quiet = arguments.has("--quiet"), leads = !ranks || ranks->leads();
  if (!leads) locked.choices = runtime::choices_of_rank_0(*ranks);
  if (resume_option(arguments) != runtime::Resume::never) keep_keys_of_checkpoint(*spec);
  // Before data is read: tokenizing a corpus takes minutes.
  std::optional<runtime::OpenedEncoder> encoder = open_reply_encoder(*spec);
  const runtime::Corpus corpus = open_corpus(*spec, quiet || !leads, memory_option(arguments));
  if (leads && !quiet && resume_option(arguments) != runtime::Resume::never) note_changed_rate(*spec);
  runtime::TrainSettings settings = train_settings(*spec);
  if (encoder) {
    settings.train.objective.encoder = std::move(encoder->encoder);
    settings.train.identity["objective.embed"] = encoder->identity;
  }
  settings.train.resume = resume_option(arguments);
  settings.train.exact = arguments.has("--exact");
  settings.train.quiet = quiet;
  settings.choices = locked.choices;
  settings.version = version_line();
  BuiltProgram built;
  const auto make = [&](const runtime::RecordedChoices& recorded) -> runtime::LaidOutProgram& {
    BuildOptions options = build_options(arguments);
    options.recorded = recorded;
    if (ranks && !targets::find(spec->target)->is_cpu())
      options.gpu = runtime::cuda::gpu_of_this_process(ranks->size());
    built = build_program(*spec, options);
    // A checkpoint's choices, where there is one, are compared as the run goes on from it.
    if (leads && recorded == locked.choices)
      compare_with_lock(arguments, locked, built.program->steps().choices());
    if (arguments.has("--check-kernels")) built.program->steps().check_kernels();
    require_reply_encoder(*spec, built.program->steps());
    return built.program->steps();
  };
  return train_run(std::move(settings), corpus, make, ranks);
}

}  // namespace

int run_verb(const Arguments& arguments) {
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  require_own_command(locked->spec);
  require_runnable(locked->spec);  // tokenizing a corpus takes minutes
  require_gpus_of_ranks(locked->spec);
  require_places(locked->spec);
  const std::unique_ptr<runtime::Ranks> started = runtime::ranks_of_run(
      static_cast<int>(spec::rank_count(locked->spec)), locked->spec.train.cpu_affinity.numbers,
      runtime::Starts::this_program, arguments.has("--quiet"));
  return runtime::end_together(started.get(),
                               [&](runtime::Ranks* ranks) { return train(arguments, *locked, ranks); });
}

}  // namespace hydrac::cli
