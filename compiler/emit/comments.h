// Words of the code that comments of emitted files speak of.
#pragma once
#include "emit/emit.h"

namespace hydrac::emit {

// Comments are specialized like code: the files and functions that they name (`name(`, longer names with an
// underscore, in what was a template) are in the program, or in headers of the runtime that are not
// themselves specialized into it, and they say nothing of dropout, documents or soft caps where the kernels'
// code has none. std::logic_error, an internal error of hydrac, that lists what is said of nothing.
void check_comments(const Files& files);

}  // namespace hydrac::emit
