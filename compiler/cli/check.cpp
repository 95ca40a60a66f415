// `hydrac check`: the resolved spec, and what it will need.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/generation_plan.h"
#include "cli/locked_spec.h"
#include "cli/program_memory.h"
#include "cli/report.h"
#include "cli/report_json.h"
#include "cli/spec_input.h"
#include "cli/train_settings.h"
#include "cli/verb.h"
#include "models/adapter.h"
#include "spec/hugging_face.h"
#include "spec/print.h"

namespace hydrac::cli {

int check_verb(const Arguments& arguments) {
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  spec::Spec* const spec = &locked->spec;
  // Of another machine's cores nothing is known here.
  if (targets::find(spec->target)->is_cpu() || targets::detected_gpu() == spec->target) require_cores(*spec);
  leave_training_as_it_is(arguments, *spec);
  const passes::Log chosen = complete_for_planning(*spec, memory_option(arguments));
  BuildOptions options = build_options(arguments);
  options.chosen = chosen;
  spec::Spec program = *spec;  // with --generate, that of another one than the spec's own
  options.generation = generation_option(arguments, program);
  const bool json = arguments.has("--json");
  if (!json) fmt::print("{}", spec::to_yaml(*spec));
  const PlannedProgram planned = plan_program(program, options);
  fmt::print("{}", json ? check_json(planned.compiled, planned.limit)
                        : "\n" + memory_summary(planned.compiled, "# "));
  if (!json) {
    for (const passes::Decision& decision : chosen) fmt::print("# {}: {}\n", decision.pass, decision.text);
  }
  if (!json && spec->model.input == spec::Input::tokens)
    fmt::print("# {}\n", describe(spec::hugging_face_model(*spec), models::has_adapters(*spec)));
  if (!json && spec->train.optimizer.learning_rate.automatic)
    fmt::print(
        "# a run begins with a range test of up to {} steps, which finds train.optimizer.learning_rate\n",
        kRangeSteps);
  require_fit(planned.problem);
  return kFine;
}

}  // namespace hydrac::cli
