// Derivatives of users' functions, symbolically.
#pragma once
#include <optional>

#include "functions/function.h"

namespace hydrac::functions {

// d function / d (parameter `parameter`), with the same parameters. Conventions are LibTorch's: a choice is
// differentiated branch by branch; max and min of equal arguments have the first one's derivative
// (torch.fmax); that of abs at 0 is 0. `floor` in the function is a logic_error.
Function derivative(const Function& function, int parameter);

// True if it is 0 whatever the arguments, so that nothing could be learned through it.
bool is_zero(const Function& function);

// An argument at which the function, computed in its own type, is finite but its derivative by `parameter` is
// not: it would make the whole gradient NaN. Tries arguments from 0 to far out on both sides, the same for
// all parameters; nullopt if all are finite.
std::optional<double> where_derivative_overflows(const Function& function, int parameter);

}  // namespace hydrac::functions
