// `hydrac explain`: every kernel, the memory map, and what each pass decided.
#include <fmt/format.h>

#include "cli/program_memory.h"
#include "cli/report.h"
#include "cli/report_json.h"
#include "cli/spec_input.h"
#include "cli/verb.h"

namespace hydrac::cli {

int explain_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  require_cpu(*spec);
  complete_for_planning(*spec);
  const driver::CompileOptions options{thread_count(*spec), arguments.value("--dump").value_or(""),
                                       memory_option(arguments)};
  const driver::Compiled compiled = driver::compile(*spec, options);
  if (arguments.has("--json")) {
    fmt::print("{}", explain_json(compiled, options));
  } else {
    fmt::print("# Calls, in order\n\n{}\n# Memory\n\n{}\n{}\n# Decisions\n\n{}", call_table(compiled),
               memory_summary(compiled, ""), memory_map(compiled), decisions(compiled));
  }
  require_fit(compiled, options);
  return kFine;
}

}  // namespace hydrac::cli
