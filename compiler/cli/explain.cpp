// `hydrac explain`: every kernel, the memory map, and what each pass decided.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/generation/generation_plan.h"
#include "cli/input/locked_spec.h"
#include "cli/input/spec_input.h"
#include "cli/output/program_memory.h"
#include "cli/report/report.h"
#include "cli/report/report_json.h"
#include "cli/verb.h"
#include "runtime/cache/cache_dir.h"
#include "runtime/error.h"
#include "targets/cuda/kernels.h"

namespace hydrac::cli {

namespace {

void print_kernels(const driver::Compiled& compiled) {
  const targets::Target& target = *targets::find(compiled.spec.target);
  if (target.is_cpu()) throw runtime::InputError("--kernels: the cpu's kernels have no registers to count");
  const auto code = targets::compile_kernels(compiled.program, target.capability,
                                             device_code::CodeKind::cubin, runtime::cache_dir());
  fmt::print("{}", targets::kernel_table(compiled.program, code));
}

}  // namespace

int explain_verb(const Arguments& arguments) {
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  spec::Spec* const spec = &locked->spec;
  leave_training_as_it_is(arguments, *spec);
  BuildOptions options = build_options(arguments);
  options.chosen = complete_for_planning(*spec, memory_option(arguments));
  options.generation = generation_option(arguments, *spec);
  const PlannedProgram planned = plan_program(*spec, options);
  const driver::Compiled& compiled = planned.compiled;
  if (arguments.has("--json")) {
    fmt::print("{}", explain_json(compiled, planned.limit));
  } else if (arguments.has("--kernels")) {
    print_kernels(compiled);
  } else {
    fmt::print("# Calls, in order\n\n{}\n# Memory\n\n{}\n{}\n# Decisions\n\n{}", call_table(compiled),
               memory_summary(compiled, ""), memory_map(compiled), decisions(compiled));
  }
  require_fit(planned.problem);
  return kFine;
}

}  // namespace hydrac::cli
