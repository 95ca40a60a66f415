// `hydrac emit`: the program of a spec as source code.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/build_program.h"
#include "cli/program_memory.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "emit/emit.h"
#include "runtime/error.h"

namespace hydrac::cli {

int emit_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  const PlannedProgram planned = plan_program(*spec, build_options(arguments));
  require_fit(planned.problem);
  const std::filesystem::path folder = arguments.value("--output").value_or("generated");
  for (const auto& [name, text] : emit::emit(planned.compiled, {})) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  }
  return kFine;
}

}  // namespace hydrac::cli
