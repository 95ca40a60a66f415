// Values that emitted kernels take apart and put together again for no reason. Includes Clang's headers: see
// ast.h.
#pragma once
#include <vector>

#include "specialize/ast.h"

namespace hydrac::specialize {

// Finds, in the kernel files that hydrac writes, sums x / n * n + x % n (also of named constants), and casts
// back to the type from which a value was widened. Templates are checked as written, not as instantiated.
std::vector<Problem> undone_parts(Ast& ast);

}  // namespace hydrac::specialize
