// What emitted code should not make its readers look at twice. Includes Clang's headers: see ast.h.
#pragma once
#include <vector>

#include "specialize/ast.h"

namespace hydrac::specialize {

// In the files that hydrac writes, system headers left out: loops of kernels that run once whatever the
// program's sizes are, and casts to the type that is there. Templates are looked at as they are written.
std::vector<Problem> needless_parts(Ast& ast);

}  // namespace hydrac::specialize
