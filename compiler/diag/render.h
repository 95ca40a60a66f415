// One diagnostic as text.
#pragma once
#include <string>
#include <string_view>

#include "diag/diagnostic.h"

namespace hydrac::diag {

// FILE:LINE:COL: error: message [kind]
//   the source line (a window of it when it is long; control characters as ?)
//   a caret under the column
//   help: suggestion
// Lines that have nothing to show are left out. Ends with a line break.
std::string render(const Diagnostic& diagnostic, std::string_view source_line);

// runtime::escaped(): text from a user's file, safe to show on a terminal and cut.
std::string printable(std::string_view text, size_t longest = 60);

}  // namespace hydrac::diag
