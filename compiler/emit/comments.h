// Words of the code that comments of emitted files speak of.
#pragma once
#include "emit/emit.h"

namespace hydrac::emit {

// Comments are specialized like code: the files and functions that they name (`name(`, and in what was a
// template longer names with an underscore) are in the program, or in headers of the runtime that are not
// themselves specialized into it; they say nothing of dropout, grouped heads, Hopper and the like where the
// kernels' code has none; and each barrier of a device has one. std::logic_error, an internal error of
// hydrac, that lists what is not so.
void check_comments(const Files& files);

}  // namespace hydrac::emit
