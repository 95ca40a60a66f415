// `hydrac check`: the resolved spec, and what it will need.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/program_memory.h"
#include "cli/report.h"
#include "cli/report_json.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "spec/hugging_face.h"
#include "spec/print.h"

namespace hydrac::cli {

int check_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  const bool json = arguments.has("--json");
  if (!json) fmt::print("{}", spec::to_yaml(*spec));
  const PlannedProgram planned = plan_program(*spec, build_options(arguments));
  fmt::print("{}", json ? check_json(planned.compiled, planned.limit)
                        : "\n" + memory_summary(planned.compiled, "# "));
  if (!json && spec->model.input == spec::Input::tokens)
    fmt::print("# {}\n", describe(spec::hugging_face_model(*spec)));
  require_fit(planned.problem);
  return kFine;
}

}  // namespace hydrac::cli
