// Text of layout.cpp about parameters of which ranks that share layers have parts.
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/tensors.h"
#include "emit/writer.h"

namespace hydrac::emit {

// The variable that says how the parameter is divided; "" where every rank has all of it.
std::string split_name(const Tensors& tensors, const ir::Value& parameter);

// Defines these variables.
void define_splits(Writer& out, const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                   const Tensors& tensors);

// Defines `packed`, which says where parameters lie in packs.
void define_packed(Writer& out, const driver::Compiled& compiled, const Tensors& tensors);

}  // namespace hydrac::emit
