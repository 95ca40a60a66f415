// The meaning of a Body, in float64 with naive loops: the reference for generated kernels on every target,
// and the tests' interpreter of graphs. Slow.
#pragma once
#include <vector>

#include "ir/body.h"

namespace hydrac::ir {

// `operands[i]` holds the elements of body.operands[i], dense and row-major in its shape; null where the body
// does not use it. Integers are held as doubles; float values are not rounded to f32. Every load sees what
// the operands held before, so an operand that is both read and written is safe. `layer`: the iteration of
// the region. Throws logic_error where an index leaves its tensor.
void evaluate(const Body& body, const std::vector<std::vector<double>*>& operands, int layer);

}  // namespace hydrac::ir
