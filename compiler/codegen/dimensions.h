// Sizes as C++ expressions of symbols: what a Dim's symbol stands for, "3HD" as "3 * H * D".
#pragma once
#include <string>
#include <vector>

#include "codegen/code.h"
#include "ir/graph.h"
#include "program/program.h"

namespace hydrac::codegen {

class Dimensions;

// A number and an expression of dimensions with that value, or its digits.
struct Size {
  bool is_literal() const;  // digits

  int64_t value = 1;
  Code code = "1";
};
Size literal(int64_t value);
// A Size that names a constant or a variable with that value.
Size named(int64_t value, const std::string& name);
Size operator*(const Size& a, const Size& b);
Size exact_quotient(const Size& a, const Size& b);  // where b divides a
Size ceiling_quotient(const Size& a, const Size& b);
Size operator+(const Size& a, const Size& b);
Size sum_of(const std::vector<Size>& sizes);  // "3 * C" for the same one three times; 0 for none
// In parentheses where they are needed.
Code as_factor(const Size& size);
Code as_dividend(const Size& size);
Code as_divisor(const Size& size);
// A stride or an offset of a value: products of its last dimensions, or of those of the value that contains
// it; digits for other numbers, and for small ones.
Size stride_size(const Dimensions& dimensions, const ir::Graph& graph, ir::ValueId value, int64_t stride);

// The symbols of a graph's shapes. One letter, or a capital and small letters, is a dimension; a symbol that
// stands for two different sizes is dropped. Longer symbols are built from these: numbers, products by
// juxtaposition, sums in parentheses, quotients by a number.
class Dimensions {
 public:
  explicit Dimensions(const ir::Graph& graph);

  Size of(const ir::Dim& dim) const;  // digits where the symbol does not say the size
  Size of(const ir::Shape& shape, size_t first_dim = 0) const;  // the product from there on
  std::vector<program::Dimension> all() const;

 private:
  std::map<std::string, int64_t> sizes_;
};

// "inline constexpr std::int64_t B = 64;" and so on, for those among the names.
std::string dimension_constants(const std::vector<program::Dimension>& dimensions, const Names& names);

}  // namespace hydrac::codegen
