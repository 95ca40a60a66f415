// cap * tanh(x / cap), element by element: what the logits of a model with model.logit_softcap become. In
// training it is a part of the cross-entropy.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use softcap(RegionBuilder& b, Use x, double cap, const std::string& name) {
  return b.emit(ir::Op::softcap, {x}, name, b.shape(x), {{"cap", cap}});
}

namespace {

using ir::Term;

ir::Body softcap_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const double cap = node.number("cap");
  k.store(0, tanh(k.full(0) * (1 / cap)) * cap);
  return k.take();
}

// Inputs: x, d_y.
ir::Body softcap_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term ratio = tanh(k.full(0) * (1 / node.number("cap")));
  k.store(0, k.full(1) * (1 - ratio * ratio));
  return k.take();
}

void softcap_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::softcap_backward, {node.inputs[0], *g.of(node.outputs[0])},
                  node.attributes);
}

void softcap_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const double cap = node.number("cap");
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = cap * std::tanh(in[0].data[i] / cap);
}

}  // namespace

extern const OpInfo kSoftcap{.op = ir::Op::softcap,
                             .formula = "y = cap tanh(x / cap)",
                             .inputs = {"x"},
                             .outputs = {"y"},
                             .body = softcap_body,
                             .gradient = softcap_gradient,
                             .reference = softcap_reference};
extern const OpInfo kSoftcapBackward{.op = ir::Op::softcap_backward,
                                     .formula = "d_x = d_y (1 - tanh(x / cap)^2)",
                                     .inputs = {"x", "d_y"},
                                     .outputs = {"d_x"},
                                     .body = softcap_backward_body};

}  // namespace hydrac::ops
