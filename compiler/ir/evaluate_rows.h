// The first rows of a Body in float64, a row at a time, over lazily allocated memory: for tensors as large as
// a program's.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "ir/body.h"

namespace hydrac::ir {

// The elements of a body's operands, at offsets from their first ones.
class RowMemory {
 public:
  virtual ~RowMemory() = default;
  // The element before the body runs.
  virtual double load(int operand, int64_t offset) = 0;
  // The element now: at first as before the body ran.
  virtual double& result(int operand, int64_t offset) = 0;
  // A load that misses its tensor. Compiled code may still make it, and drop what it reads in a select.
  virtual double load_outside(int /*operand*/, double /*offset*/) {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// `strides`: for each operand, one for each dimension. Numbers are as in evaluate(), except that both sides
// of a select are computed, so a load outside of its tensor gives load_outside() instead of an error.
// logic_error for a store outside.
void evaluate_rows(const Body& body, const std::vector<std::vector<int64_t>>& strides, int64_t rows,
                   int layer, RowMemory& memory);

// How many expressions a row has, each as often as it has columns.
int64_t row_cost(const Body& body);

}  // namespace hydrac::ir
