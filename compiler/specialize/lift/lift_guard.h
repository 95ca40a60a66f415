// Guards the parser: a C++ file may come from anywhere, and Clang recurses into nested code. Constructs that
// no hand-written function needs are refused before parsing.
#pragma once
#include <optional>
#include <string>

#include "specialize/lift/lift_function.h"

namespace hydrac::specialize {

// Refuses statements of more than 2000 characters, more than 500 of `else` and `for`, macros whose body is
// more than words such as __device__ and inline, and includes of anything but <...>. It also refuses raw
// strings and line continuations.
std::optional<FunctionProblem> refused_text(const std::string& text);

}  // namespace hydrac::specialize
