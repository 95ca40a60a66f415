#include "cli/input/run_refusals.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"
#include "targets/executable/program_layout.h"

namespace hydrac::cli {

void require_own_command(const spec::Spec& spec) {
  const char* key = "objective.reward.command";
  if (spec.objective.name != spec::ObjectiveName::grpo || spec.where(key).on_command_line()) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(diag::Kind::objective_needs_reward, spec.where(key),
                     "a file cannot name a program that is run",
                     "remove it, and give it behind the spec's name: objective.reward.command=./reward.py");
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

// The training loop says what else is wrong with the folder.
void require_places(const spec::Spec& spec) {
  require_cores(spec);
  const std::optional<std::string> obstacle = runtime::obstacle_to_writing(spec.output.dir);
  if (!obstacle) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(diag::Kind::output_not_writable, spec.where("output.dir"),
                     fmt::format("nothing can be written into {}: {}", spec.output.dir, *obstacle),
                     "set output.dir to a folder that may be written");
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void require_weights(const driver::Compiled& compiled) {
  const spec::Spec& spec = compiled.spec;
  const runtime::ProgramLayout layout = targets::layout_of(compiled);
  if (spec::begins_with_weights(spec))
    runtime::WeightFiles(spec.model.weights)
        .check(layout.base_parameters.empty() ? layout.parameters : layout.base_parameters);
  if (spec::begins_with_adapter(spec)) runtime::check_adapter(layout.parameters, spec.adapter.weights);
}

}  // namespace hydrac::cli
