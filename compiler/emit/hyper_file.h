// hyper.h of an emitted program: the numbers of the spec that its kernels name.
#pragma once
#include "driver/compile.h"
#include "emit/source_file.h"

namespace hydrac::emit {

SourceFile hyper_file(const driver::Compiled& compiled);

}  // namespace hydrac::emit
