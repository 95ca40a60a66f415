// memory.h and memory.cpp of an emitted program: every tensor as a field, and its place in the arena.
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/tensors.h"

namespace hydrac::emit {

std::string memory_header(const driver::Compiled& compiled, const Tensors& tensors);
std::string memory_source(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                          const Tensors& tensors);

}  // namespace hydrac::emit
