// `hydrac verify`: the comparison with LibTorch in float64, as a table.
#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/build_program.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "verify/oracle.h"

namespace hydrac::cli {

int verify_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  const std::filesystem::path oracle = verify::find_oracle(arguments.value("--oracle"));
  const verify::JobFolder folder(arguments.value("--keep"));
  const BuiltProgram built = build_program(*spec);
  targets::Executable& program = *built.program;
  const int64_t steps = std::max<int64_t>(1, arguments.number("--steps", 3));
  const auto differences = verify::compare(program, steps, oracle, folder.path());

  fmt::print("{:<10} {:<28} {:>12} {:>10}\n", "", "", "difference", "tolerance");
  int failed = 0;
  for (const verify::Difference& d : differences) {
    const std::string note =
        d.left_out > 0 ? fmt::format("  without {} elements whose gradient is rounding noise", d.left_out)
                       : "";
    fmt::print("{:<10} {:<28} {:>12.2e} {:>10.0e}{}{}\n", d.what, d.name, d.relative, d.tolerance,
               d.passed() ? "" : "  BEYOND", note);
    failed += !d.passed();
  }
  fmt::print("{}: {} of {} within tolerance of LibTorch in float64, after {} steps\n", spec->name,
             differences.size() - static_cast<size_t>(failed), differences.size(), steps);
  return failed == 0 ? kFine : kFoundWanting;
}

}  // namespace hydrac::cli
