// `hydrac explain`: every kernel, the memory map, and what each pass decided.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/program_memory.h"
#include "cli/report.h"
#include "cli/report_json.h"
#include "cli/spec_input.h"
#include "cli/verb.h"

namespace hydrac::cli {

int explain_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  const PlannedProgram planned = plan_program(*spec, build_options(arguments));
  const driver::Compiled& compiled = planned.compiled;
  if (arguments.has("--json")) {
    fmt::print("{}", explain_json(compiled, planned.limit));
  } else {
    fmt::print("# Calls, in order\n\n{}\n# Memory\n\n{}\n{}\n# Decisions\n\n{}", call_table(compiled),
               memory_summary(compiled, ""), memory_map(compiled), decisions(compiled));
  }
  require_fit(planned.problem);
  return kFine;
}

}  // namespace hydrac::cli
