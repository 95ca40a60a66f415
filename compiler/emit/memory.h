// memory.h of an emitted program: every tensor as a field, with its place in the arena.
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/tensors.h"

namespace hydrac::emit {

// Throws logic_error where gradients or copies are not packed as the parameters are.
std::string memory_header(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                          const Tensors& tensors);

}  // namespace hydrac::emit
