// `hydrac explain`: every kernel, the memory map, and what each pass decided.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/report.h"
#include "cli/spec_input.h"
#include "cli/verb.h"

namespace hydrac::cli {

int explain_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  const driver::Compiled compiled = plan_program(*spec, arguments.value("--dump").value_or(""));
  fmt::print("# Calls, in order\n\n{}\n# Memory\n\n{}\n{}\n# Decisions\n\n{}", call_table(compiled),
             memory_summary(compiled, ""), memory_map(compiled), decisions(compiled));
  return kFine;
}

}  // namespace hydrac::cli
