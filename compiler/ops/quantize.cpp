// Tensors of 8 bits for matmuls: their elements times a scale, which keeps the largest of them within what
// the type holds, and that largest one, which the scales to come are made of. And their transpose, because a
// matmul of 8 bits wants both operands' rows to be what it sums over.
#include <algorithm>
#include <cmath>

#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

// A row in halves, as a gated activation's gradient is made, has each column in both halves.
ir::Body quantize_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;
  const ir::Shape rows = leading(shape);
  const bool in_halves = node.optional_flag("in_halves");
  const int64_t half = shape.back().size / 2;
  ir::BodyBuilder k(graph, node, rows);
  k.columns(in_halves ? ir::Shape{{half, ""}} : last(shape));
  for (int part = 0; part < (in_halves ? 2 : 1); ++part) {
    std::vector<ir::Affine> index;
    for (size_t r = 0; r < rows.size(); ++r) index.push_back(k.row(static_cast<int>(r)));
    index.push_back(k.column(0) + ir::Affine{part * half, {}});
    const ir::Term x = k.load(0, index);
    k.store_at(0, index, x * k.scalar(1));
    k.raise(1, abs(x));
  }
  return k.take();
}

void quantize_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  double largest = out[1].data[0];
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[i] * in[1].data[0];
    largest = std::max(largest, std::abs(in[0].data[i]));
  }
  out[1].data[0] = largest;
}

ir::Body largest_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.raise(0, abs(k.full(0)));
  return k.take();
}

void largest_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (const double x : in[0].data) out[0].data[0] = std::max(out[0].data[0], std::abs(x));
}

ir::Body scaled_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) * k.scalar(1));
  return k.take();
}

void scaled_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = in[0].data[i] * in[1].data[0];
}

void transpose_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t columns = in[0].shape.back(), rows = row_count(in[0]);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[0].data[c * rows + r] = in[0].data[r * columns + c];
  }
}

Cost transpose_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& x = graph.value(node.inputs[0]);
  return {0, 2.0 * static_cast<double>(element_count(x.shape) * size_of(x.dtype))};
}

}  // namespace

// `largest` is a state: it rises until somebody clears it. Attribute in_halves: of rows that are made in
// halves.
extern const OpInfo kQuantize{.op = ir::Op::quantize,
                              .formula = "quantized = x scale; largest = max(largest, |x|)",
                              .inputs = {"x", "scale"},
                              .outputs = {"quantized", "largest"},
                              .body = quantize_body,
                              .reference = quantize_reference};
extern const OpInfo kLargest{.op = ir::Op::largest,
                             .formula = "largest = max(largest, |x|)",
                             .inputs = {"x"},
                             .outputs = {"largest"},
                             .body = largest_body,
                             .reference = largest_reference};
extern const OpInfo kScaled{.op = ir::Op::scaled,
                            .formula = "quantized = x scale",
                            .inputs = {"x", "scale"},
                            .outputs = {"quantized"},
                            .body = scaled_body,
                            .reference = scaled_reference};
// [.., C] with R rows becomes [C, R]. Of 8-bit elements; R and C are multiples of 16.
extern const OpInfo kTranspose{
    .op = ir::Op::transpose, .formula = "y = x^T", .cost = transpose_cost, .reference = transpose_reference};

}  // namespace hydrac::ops
