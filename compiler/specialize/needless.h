// Code in emitted programs that makes a reader look twice. Includes Clang's headers: see ast.h.
#pragma once
#include <vector>

#include "specialize/ast.h"

namespace hydrac::specialize {

// In CUDA files that hydrac writes, system headers left out: loops over a constant of theirs that is 1, and
// casts to the type that is there. Templates are looked at as they are written.
std::vector<Problem> needless_parts(Ast& ast);

}  // namespace hydrac::specialize
