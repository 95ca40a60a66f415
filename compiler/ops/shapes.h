// Small shape and reference helpers shared by the op files.
#pragma once
#include "ops/op.h"

namespace hydrac::ops {

inline ir::Shape leading(const ir::Shape& shape) {
  return {shape.begin(), shape.end() - 1};
}
inline ir::Shape last(const ir::Shape& shape) {
  return {shape.back()};
}
inline ir::Shape with_last(ir::Shape shape, ir::Dim dim) {
  shape.back() = std::move(dim);
  return shape;
}
// Tokens of which the first ones are only read.
inline ir::Dim without(int64_t before, const ir::Dim& tokens) {
  return before == 0 ? tokens : ir::Dim{tokens.size - before, ""};
}

// A body with one row for each leading index of operand `input`, and its last dimension as columns.
inline ir::BodyBuilder rowwise(const ir::Graph& graph, const ir::Node& node, int input = 0) {
  const ir::Shape& shape = graph.value(node.inputs[input]).shape;
  ir::BodyBuilder builder(graph, node, leading(shape));
  builder.columns(last(shape));
  return builder;
}

// For references: how many rows a tensor has when its last dimension is taken as columns.
inline int64_t row_count(const Tensor64& x) {
  return static_cast<int64_t>(x.data.size()) / x.shape.back();
}

}  // namespace hydrac::ops
