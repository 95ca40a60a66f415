// layout.cpp of an emitted program: what the training loop reads and writes of its memory, how parameters
// start, and their names in checkpoints.
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/tensors.h"

namespace hydrac::emit {

std::string layout_source(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                          const Tensors& tensors);

}  // namespace hydrac::emit
