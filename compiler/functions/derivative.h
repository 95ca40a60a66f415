// Derivatives of users' functions, symbolically.
#pragma once
#include <optional>

#include "functions/function.h"

namespace hydrac::functions {

// d function / d (parameter `parameter`), of the same parameters. Conventions are LibTorch's: a choice is
// differentiated branch by branch; where the two of max or min are equal it is the first one's derivative
// (torch.fmax); that of abs at 0 is 0. `floor` must not be in the function: logic_error.
Function derivative(const Function& function, int parameter);

// True if it is 0 whatever the arguments, so that nothing could be learned through it.
bool is_zero(const Function& function);

// An argument at which the function, computed in its own type, is finite, and its derivative by `parameter`
// is not: it would make the whole gradient NaN. Looks at some arguments from 0 to far out on both sides, the
// same for all parameters; empty where there is none.
std::optional<double> where_derivative_overflows(const Function& function, int parameter);

}  // namespace hydrac::functions
