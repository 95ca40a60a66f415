// `hydrac check`: the resolved spec, and what it will need.
#include <fmt/format.h>

#include "cli/program_memory.h"
#include "cli/report.h"
#include "cli/report_json.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "driver/compile.h"
#include "spec/print.h"
#include "targets/target.h"

namespace hydrac::cli {

int check_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  const bool json = arguments.has("--json");
  if (!json) fmt::print("{}", spec::to_yaml(*spec));
  if (!json && !targets::find(spec->target)->is_cpu()) {
    fmt::print(
        "\n# The spec is valid. Its memory on {} is planned by the cuda target, which this version does not "
        "have yet.\n",
        spec->target);
    return kFine;
  }
  require_cpu(*spec);
  const driver::CompileOptions options{thread_count(*spec), arguments.value("--dump").value_or(""),
                                       memory_option(arguments)};
  const driver::Compiled compiled = driver::compile(*spec, options);
  fmt::print("{}", json ? check_json(compiled, options) : "\n" + memory_summary(compiled, "# "));
  require_fit(compiled, options);
  return kFine;
}

}  // namespace hydrac::cli
