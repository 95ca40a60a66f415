// `hydrac check`: the resolved spec, and what it will need.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/report.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "spec/print.h"

namespace hydrac::cli {

int check_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  fmt::print("{}", spec::to_yaml(*spec));
  const driver::Compiled compiled = plan_program(*spec, arguments.value("--dump").value_or(""));
  fmt::print("\n{}", memory_summary(compiled, "# "));
  return kFine;
}

}  // namespace hydrac::cli
