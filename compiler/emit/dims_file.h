// dims.h of an emitted program: its sizes by the letters of its comments, and what each letter stands for.
#pragma once
#include "driver/compile.h"
#include "emit/source_file.h"

namespace hydrac::emit {

SourceFile dims_file(const driver::Compiled& compiled);

}  // namespace hydrac::emit
