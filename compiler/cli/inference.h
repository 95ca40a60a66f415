// Programs that only compute a model's logits, and where their parameters come from.
#pragma once
#include <filesystem>

#include "runtime/program/step_program.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Freezes all but the last norm: such a program needs no gradients, moments or 32-bit copies.
void freeze_for_inference(spec::Spec& spec);

// The parameters of a run's checkpoint; beside an adapter, those of model.weights or the seed. InputError
// where the adapter was trained beside other weights, and as load_parameters().
void fill_from_checkpoint(runtime::StepProgram& program, const spec::Spec& spec,
                          const std::filesystem::path& checkpoint);

}  // namespace hydrac::cli
