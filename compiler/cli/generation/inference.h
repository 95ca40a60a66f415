// Programs that only compute a model's logits, and where their parameters come from.
#pragma once
#include <filesystem>

#include "runtime/program/step_program.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Freezes all but the last norm: such a program needs no gradients, moments or 32-bit copies.
void freeze_for_inference(spec::Spec& spec);

// Loads the parameters of a run's checkpoint; for an adapter also the base, from model.weights or the seed.
// InputError if the adapter was trained with another base, and as load_parameters().
void fill_from_checkpoint(runtime::StepProgram& program, const spec::Spec& spec,
                          const std::filesystem::path& checkpoint);

}  // namespace hydrac::cli
