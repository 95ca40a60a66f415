// The float64 meaning of expressions that depend only on their arguments: all but loads, positions, the layer
// and reductions.
#pragma once
#include <array>

#include "ir/body.h"

namespace hydrac::ir {

double evaluate(const Expr& expr, const std::array<double, 3>& args);

}  // namespace hydrac::ir
