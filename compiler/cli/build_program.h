// From a resolved spec to something that runs on this machine, whatever its target is.
#pragma once
#include <memory>
#include <string>

#include "driver/compile.h"
#include "targets/cuda/machine.h"
#include "targets/executable/executable.h"

namespace hydrac::cli {

// The GPU, if the program runs on one, outlives the program.
struct BuiltProgram {
  std::unique_ptr<targets::CudaMachine> machine;
  std::unique_ptr<targets::Executable> program;
};

// Compiles the spec and its kernels and takes the memory. InputError when this machine cannot run its target,
// or when its shapes are none that the target's kernels take.
BuiltProgram build_program(const spec::Spec& spec, const std::string& dump_dir = "");

// Only the plan. A GPU's plan is exact on a machine that has it; elsewhere cuDNN's workspaces are those that
// were measured on an H200.
driver::Compiled plan_program(const spec::Spec& spec, const std::string& dump_dir);

}  // namespace hydrac::cli
