// a + b: the residual stream, and sums of gradients.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use add(RegionBuilder& b, Use x, Use y, const std::string& name, const std::string& x_name) {
  ir::Attributes attributes;
  if (!x_name.empty()) attributes["input_name"] = x_name;
  return b.emit(ir::Op::add, {x, y}, name, b.shape(x), std::move(attributes));
}

namespace {

ir::Body add_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) + k.full(1));
  return k.take();
}

void add_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  for (Use input : node.inputs) {
    if (g.wanted(input)) g.contribute(input, dy);
  }
}

void add_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < out[0].data.size(); ++i) out[0].data[i] = in[0].data[i] + in[1].data[i];
}

}  // namespace

extern const OpInfo kAdd{.op = ir::Op::add,
                         .formula = "sum = residual + x",
                         .inputs = {"residual", "x"},
                         .outputs = {"sum"},
                         .body = add_body,
                         .gradient = add_gradient,
                         .reference = add_reference};

}  // namespace hydrac::ops
