// Everything that a program's library gives the functions of train.h to work with.
#pragma once
#include "runtime/app/train_main.h"
#include "runtime/c_interface/train.h"

namespace hydrac::runtime {

// train_create() of the program that `make_program` makes; `settings` say what its checkpoints are of.
train_program* create_for_c(const TrainSettings& settings, const MakeProgram& make_program);

}  // namespace hydrac::runtime
