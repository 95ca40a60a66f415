// The sizes of a program under the letters that its shapes are written with: "B" is 64, so "3HD" is the C++
// expression 3 * H * D.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hydrac::emit {

struct Dimension {
  std::string symbol;
  int64_t size = 0;
};

class Dimensions {
 public:
  // Letters that stand for one size in all shapes of the graph.
  explicit Dimensions(const ir::Graph& graph);

  // As C++: "3 * H * D", or the number where no letters say it.
  std::string text(const ir::Dim& dim) const;
  // Of several dimensions: "B * T"; "1" for none.
  std::string product(const ir::Shape& shape) const;
  // Elements of a tensor.
  std::string elements(const ir::Shape& shape) const { return product(shape); }

  const std::map<std::string, int64_t>& sizes() const { return sizes_; }

 private:
  std::map<std::string, int64_t> sizes_;
};

}  // namespace hydrac::emit
