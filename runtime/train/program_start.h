// A program's memory before a session's first step: new parameters, parameters from files, or what a
// checkpoint does not hold.
#pragma once
#include "runtime/program/step_program.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

// Starts the program with the weights that `options` name. If the run continues, a checkpoint has its state,
// and only the parameters that it does not train are filled. InputErrors of WeightFiles.
void start_program(StepProgram& program, const TrainOptions& options, bool continues);

// Sets the global index of a rank's micro-batches, on which random bits depend. The program's counter, like a
// checkpoint's, is the index of the next step's first micro-batch.
void number_micro_batches(StepProgram& program, const TrainOptions& options);

}  // namespace hydrac::runtime
