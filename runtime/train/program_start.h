// A program's memory before a session's first step: new parameters, those of files, or what a checkpoint does
// not hold.
#pragma once
#include "runtime/program/step_program.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

// Starts the program with the weights that `options` name. A run that continues has its state in a
// checkpoint, but for what it does not train: that alone is filled then. InputErrors of WeightFiles.
void start_program(StepProgram& program, const TrainOptions& options, bool continues);

// Gives a rank's micro-batches their numbers in the whole run, of which random bits are a function: the
// program's counter, as a checkpoint has it, is that of the next step's first one.
void number_micro_batches(StepProgram& program, const TrainOptions& options);

}  // namespace hydrac::runtime
