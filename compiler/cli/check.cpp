// `hydrac check`: the resolved spec, and what it will need.
#include <fmt/format.h>

#include "cli/program_memory.h"
#include "cli/report.h"
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
  fmt::print("{}", spec::to_yaml(*spec));
  if (!targets::find(spec->target)->is_cpu()) {
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
  fmt::print("\n{}", memory_summary(compiled, "# "));
  require_fit(compiled, options);
  return kFine;
}

}  // namespace hydrac::cli
