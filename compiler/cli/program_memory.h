// The memory that a program may take: `--memory`, and the refusal of one that does not fit.
#pragma once
#include "cli/arguments.h"
#include "driver/compile.h"

namespace hydrac::cli {

// --memory GIB in bytes, 0 where it is not given; runtime::InputError for anything but a positive number.
int64_t memory_option(const Arguments& arguments);

// Prints what is wrong and what would fit, and throws Reported, where the program does not fit.
// `options`: those it was compiled with.
void require_fit(const driver::Compiled& compiled, const driver::CompileOptions& options);

}  // namespace hydrac::cli
