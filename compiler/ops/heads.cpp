// Sums over heads, and one vector a token for all of its heads: each is the other's gradient.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use head_sum(RegionBuilder& b, Use x, double factor, const std::string& name) {
  const ir::Shape& shape = b.shape(x);  // [B,T,H,D]
  return b.emit(ir::Op::head_sum, {x}, name, {shape[0], shape[1], shape[3]}, {{"factor", factor}});
}

Use scale_heads(RegionBuilder& b, Use x, ir::Dim heads, double factor, const std::string& name) {
  ir::Shape shape = b.shape(x);  // [B,T,D] or [B,T,H,D]
  if (shape.size() == 3) shape.insert(shape.begin() + 2, std::move(heads));
  return b.emit(ir::Op::scale_heads, {x}, name, std::move(shape), {{"factor", factor}});
}

namespace {

ir::Body sum_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, {shape[0], shape[1]});
  k.columns({shape[3]});
  const auto head = [&](int64_t h) {
    return k.load(0, {k.row(0), k.row(1), ir::Affine{h, {}}, k.column(0)});
  };
  ir::Term sum = head(0);
  for (int64_t h = 1; h < shape[2].size; ++h) sum = sum + head(h);
  k.store(0, sum * node.number("factor"));
  return k.take();
}

ir::Body scale_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, leading(shape));
  k.columns(last(shape));
  const bool has_heads = graph.value(node.inputs[0]).shape.size() == 4;
  const ir::Term x = has_heads ? k.full(0) : k.load(0, {k.row(0), k.row(1), k.column(0)});
  k.store(0, x * node.number("factor"));
  return k.take();
}

void sum_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::scale_heads, {*g.of(node.outputs[0])},
                  {{"factor", node.number("factor")}, {"input_name", "d_y"}, {"output_name", "d_x"}});
}

void scale_gradient(Gradient& g, const ir::Node& node) {
  const bool has_heads = g.shape(node.inputs[0]).size() == 4;
  g.contribute_op(node.inputs[0], has_heads ? ir::Op::scale_heads : ir::Op::head_sum,
                  {*g.of(node.outputs[0])},
                  {{"factor", node.number("factor")}, {"input_name", "d_y"}, {"output_name", "d_x"}});
}

void sum_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t heads = in[0].shape[2], d = in[0].shape[3];
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const int64_t token = static_cast<int64_t>(i) / d, element = static_cast<int64_t>(i) % d;
    double sum = 0;
    for (int64_t h = 0; h < heads; ++h) sum += in[0].data[(token * heads + h) * d + element];
    out[0].data[i] = node.number("factor") * sum;
  }
}

void scale_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t d = out[0].shape[3], row = out[0].shape[2] * d;
  const bool has_heads = in[0].shape.size() == 4;
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    out[0].data[i] = node.number("factor") * in[0].data[has_heads ? at : at / row * d + at % d];
  }
}

}  // namespace

extern const OpInfo kHeadSum{.op = ir::Op::head_sum,
                             .formula = "y = factor * the sum of x over heads",
                             .inputs = {"x"},
                             .outputs = {"y"},
                             .body = sum_body,
                             .gradient = sum_gradient,
                             .reference = sum_reference};
// x is of each head, or one for all.
extern const OpInfo kScaleHeads{.op = ir::Op::scale_heads,
                                .formula = "y = factor * x, for every head",
                                .inputs = {"x"},
                                .outputs = {"y"},
                                .body = scale_body,
                                .gradient = scale_gradient,
                                .reference = scale_reference};

}  // namespace hydrac::ops
