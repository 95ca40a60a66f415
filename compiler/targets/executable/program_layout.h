// What the runtime must know of a compiled program's memory.
#pragma once
#include "driver/compile.h"
#include "runtime/program/layout.h"

namespace hydrac::targets {

runtime::ProgramLayout layout_of(const driver::Compiled& compiled);

}  // namespace hydrac::targets
