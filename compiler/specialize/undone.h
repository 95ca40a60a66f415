// Values that emitted kernels take apart and put together again for no reason. Includes Clang's headers: see
// ast.h.
#pragma once
#include <vector>

#include "specialize/ast.h"

namespace hydrac::specialize {

// In the files of kernels that hydrac writes: sums x / n * n + x % n, be it of constants that were given
// names before, and casts back to the type from which a value was widened. Templates are looked at as they
// are written.
std::vector<Problem> undone_parts(Ast& ast);

}  // namespace hydrac::specialize
