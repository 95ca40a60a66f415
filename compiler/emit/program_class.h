// program.h and program.cpp of an emitted program: the class that the training loop drives.
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/emit.h"

namespace hydrac::emit {

std::string program_declaration(const driver::Compiled& compiled, Hooks hooks);
std::string program_definition(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                               Hooks hooks);

}  // namespace hydrac::emit
