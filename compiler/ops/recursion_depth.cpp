// How many passes a token takes through a block's mlp, by the router's logit (mixture of recursions, Bae et
// al., 2025): with squashed = 3 tanh(logit / 2) and p = sigmoid(squashed), depth = round(p (R - 1)), from 0
// to R - 1. weight = exp(-(p (R - 1) - depth)^2) says how near to its depth a token is; through it alone the
// router learns from the loss of the targets, and the depth is a constant to it.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/router_probability.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Depths recursion_depth(RegionBuilder& b, Use logit, int64_t recursions, const std::string& name, Use depth) {
  if (depth.value == ir::kNoValue) depth = b.exact(b.fresh(name + ".depth", b.shape(logit)));
  const Use weight = b.exact(b.fresh(name + ".weight", b.shape(logit)));
  b.emit_node(ir::Op::recursion_depth, {logit}, {depth, weight}, {{"recursions", recursions}});
  return {depth, weight};
}

namespace {

using ir::Term;

Term last_depth(ir::BodyBuilder& k, const ir::Node& node) {
  return k.constant(static_cast<double>(node.integer("recursions") - 1), ir::ExprType::f32, "kLastDepth");
}

// The formula's terms of one logit.
struct Terms {
  Term p, scaled, depth, weight;
};

Terms terms(ir::BodyBuilder& k, const ir::Node& node, Term logit) {
  const Term p = router_probability(logit), scaled = k.named("scaled", p * last_depth(k, node));
  const Term depth = k.named("row_depth", floor(scaled + 0.5)), off = k.named("off", scaled - depth);
  return {p, scaled, depth, k.named("row_weight", expm1(-(off * off)) + 1)};
}

ir::Body recursion_depth_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  const Terms t = terms(k, node, k.per_row(0));
  k.store_row(0, t.depth);
  k.store_row(1, t.weight);
  return k.take();
}

ir::Body recursion_depth_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  const Term logit = k.per_row(1);
  const Terms t = terms(k, node, logit);
  const Term d_scaled = -2 * (t.scaled - t.depth) * t.weight * k.per_row(0);
  k.store_row(0, d_scaled * last_depth(k, node) * router_probability_derivative(logit));
  return k.take();
}

void recursion_depth_gradient(Gradient& g, const ir::Node& node) {
  if (const std::optional<Use> d_weight = g.of(node.outputs[1]))
    g.contribute_op(node.inputs[0], ir::Op::recursion_depth_backward, {*d_weight, node.inputs[0]},
                    node.attributes);
}

void recursion_depth_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                               std::vector<Tensor64>& out) {
  const auto last = static_cast<double>(node.integer("recursions") - 1);
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double scaled = last / (1 + std::exp(-3 * std::tanh(in[0].data[i] / 2)));
    out[0].data[i] = std::floor(scaled + 0.5);
    out[1].data[i] = std::exp(-std::pow(scaled - out[0].data[i], 2));
  }
}

}  // namespace

extern const OpInfo kRecursionDepth{.op = ir::Op::recursion_depth,
                                    .formula =
                                        "p = sigmoid(3 tanh(logit / 2)), depth = round(p last_depth), weight "
                                        "= exp(-(p last_depth - depth)^2)",
                                    .inputs = {"logit"},
                                    .outputs = {"depth", "weight"},
                                    .body = recursion_depth_body,
                                    .gradient = recursion_depth_gradient,
                                    .reference = recursion_depth_reference};
extern const OpInfo kRecursionDepthBackward{.op = ir::Op::recursion_depth_backward,
                                            .formula = "d_logit = d_weight weight' last_depth p'",
                                            .inputs = {"d_weight", "logit"},
                                            .outputs = {"d_logit"},
                                            .body = recursion_depth_backward_body};

}  // namespace hydrac::ops
