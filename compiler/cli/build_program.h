// From a resolved spec to something that runs on this machine, whatever its target is.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/input/arguments.h"
#include "diag/diagnostic.h"
#include "driver/compile.h"
#include "driver/memory_limit.h"
#include "targets/cuda/machine.h"
#include "targets/executable/executable.h"

namespace hydrac::cli {

// A part of the time from a spec to a program that can run, in the order in which they follow each other.
struct StartPhase {
  std::string what;
  double seconds = 0;
};

// The GPU, if the program runs on one, outlives the program.
struct BuiltProgram {
  std::unique_ptr<targets::CudaMachine> machine;
  std::unique_ptr<targets::Executable> program;
  std::vector<StartPhase> phases;
};

struct BuildOptions {
  std::string dump_dir;      // as driver::CompileOptions has them
  int64_t memory_bytes = 0;  // 0: what the target has; on a GPU that is here, what is free of it
  runtime::RecordedChoices recorded = {};  // what the program repeats instead of measuring
  int gpu = 0;                             // of those that CUDA sees
  bool offline = false;                    // the plan that any machine would make, whatever GPU is here
  std::optional<models::Generation> generation = {};  // as driver::CompileOptions has it
  passes::Log chosen = {};  // what planning chose before, for plan_program(): its decisions begin with it
};
BuildOptions build_options(const Arguments& arguments);  // --dump and --memory

// Options to compile without running: a GPU's plan as on any machine. `memory_bytes`: as in BuildOptions.
driver::CompileOptions planning_options(const spec::Spec& spec, int64_t memory_bytes);

// InputError when the spec's shapes are none that the target's kernels take.
void check_shapes(const spec::Spec& spec);

// InputError at once if this machine cannot run the spec's target, or if the target's kernels do not support
// its shapes.
void require_runnable(const spec::Spec& spec);

// Compiles the spec and its kernels and allocates the memory. InputError if this machine cannot run its
// target, or if the target's kernels do not support its shapes; Reported if it does not fit the memory.
BuiltProgram build_program(const spec::Spec& spec, const BuildOptions& options = {});

struct PlannedProgram {
  driver::Compiled compiled;
  driver::MemoryLimit limit;
  std::optional<diag::Diagnostic> problem;  // where it does not fit
};

// Only the plan. A GPU's plan is exact on a machine with that GPU; elsewhere cuDNN's workspaces are those
// measured on an H200.
PlannedProgram plan_program(const spec::Spec& spec, const BuildOptions& options);

}  // namespace hydrac::cli
