// Code in emitted programs that makes a reader look twice. Includes Clang's headers: see ast.h.
#pragma once
#include <vector>

#include "specialize/ast.h"

namespace hydrac::specialize {

// Finds, in CUDA files that hydrac writes (without system headers), loops over a constant that is 1, and
// casts to the same type. Templates are checked as written, not as instantiated.
std::vector<Problem> needless_parts(Ast& ast);

}  // namespace hydrac::specialize
