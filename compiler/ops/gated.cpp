// Gated linear units (Shazeer, 2020): y = act(gate) * up, where the last dimension of x holds gate, then up.
// swiglu gates with silu, geglu with gelu, geglu_tanh with gelu_tanh. A user's function is y = f(gate, up).
#include <stdexcept>

#include "ops/activations.h"
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"
#include "ops/user_function.h"

namespace hydrac::ops {

namespace {

ir::Shape half(const ir::Shape& packed) {
  return with_last(packed, {packed.back().size / 2, "F"});
}

}  // namespace

Use gated(RegionBuilder& b, const std::string& kind, Use x, const std::string& name) {
  return b.emit(ir::Op::gated, {x}, name, half(b.shape(x)), {{"kind", kind}});
}

Use gated(RegionBuilder& b, const functions::Function& function, Use x, const std::string& name) {
  return b.emit(ir::Op::gated, {x}, name, half(b.shape(x)), function_attributes(function));
}

namespace {

const Activation& gate_of(const ir::Node& node) {
  const auto& kind = std::get<std::string>(node.attributes.at("kind"));
  if (kind == "swiglu") return activation_named("silu");
  if (kind == "geglu") return activation_named("gelu");
  if (kind == "geglu_tanh") return activation_named("gelu_tanh");
  throw std::logic_error("unknown gated activation " + kind);
}

// The index of a token's gate (half 0) or up (half 1) at the current column.
std::vector<ir::Affine> half_index(const ir::BodyBuilder& k, const ir::Shape& packed, int half) {
  std::vector<ir::Affine> index;
  for (size_t i = 0; i + 1 < packed.size(); ++i) index.push_back(k.row(static_cast<int>(i)));
  index.push_back(k.column(0) + ir::Affine{half * packed.back().size / 2, {}});
  return index;
}

ir::Body gated_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& packed = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, leading(packed));
  k.columns(last(graph.value(node.outputs[0]).shape));
  const ir::Term gate = k.named("gate", k.load(0, half_index(k, packed, 0)));
  const ir::Term up = k.named("up", k.load(0, half_index(k, packed, 1)));
  const functions::Function* function = function_of(node);
  k.store(0, function ? call(k, *function, {gate, up}) : gate_of(node).value(gate) * up);
  return k.take();
}

ir::Body gated_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& packed = graph.value(node.inputs[1]).shape;
  ir::BodyBuilder k(graph, node, leading(packed));
  k.columns(last(graph.value(node.inputs[0]).shape));
  const ir::Term dy = k.full(0);
  const ir::Term gate = k.named("gate", k.load(1, half_index(k, packed, 0)));
  const ir::Term up = k.named("up", k.load(1, half_index(k, packed, 1)));
  if (const functions::Function* function = function_of(node)) {
    k.store_at(0, half_index(k, packed, 0), dy * call_derivative(k, *function, 0, {gate, up}));
    k.store_at(0, half_index(k, packed, 1), dy * call_derivative(k, *function, 1, {gate, up}));
  } else {
    k.store_at(0, half_index(k, packed, 0), dy * up * gate_of(node).derivative(gate));
    k.store_at(0, half_index(k, packed, 1), dy * gate_of(node).value(gate));
  }
  return k.take();
}

std::string gated_kernel(const ir::Node& node) {
  const functions::Function* function = function_of(node);
  return function ? kernel_name(*function) : std::get<std::string>(node.attributes.at("kind"));
}
std::string gated_backward_kernel(const ir::Node& node) {
  return gated_kernel(node) + "_backward";
}

void gated_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::gated_backward, {*g.of(node.outputs[0]), node.inputs[0]},
                  node.attributes);
}

void gated_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t n = out[0].shape.back();
  const functions::Function* function = function_of(node);
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    for (int64_t i = 0; i < n; ++i) {
      const double gate = in[0].data[r * 2 * n + i], up = in[0].data[r * 2 * n + n + i];
      out[0].data[r * n + i] =
          function ? evaluate<double>(*function, {gate, up}) : gate_of(node).reference(gate) * up;
    }
  }
}

}  // namespace

extern const OpInfo kGated{.op = ir::Op::gated,
                           .formula = "y = act(gate) * up",
                           .inputs = {"gate_up"},
                           .outputs = {"y"},
                           .kernel = gated_kernel,
                           .body = gated_body,
                           .gradient = gated_gradient,
                           .reference = gated_reference};
extern const OpInfo kGatedBackward{.op = ir::Op::gated_backward,
                                   .formula = "d_gate = d_y * up * act'(gate), d_up = d_y * act(gate)",
                                   .inputs = {"d_y", "gate_up"},
                                   .outputs = {"d_gate_up"},
                                   .kernel = gated_backward_kernel,
                                   .body = gated_backward_body};

}  // namespace hydrac::ops
