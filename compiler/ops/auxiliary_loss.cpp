// Losses that a block adds to the loss of the targets, as a router does: a weight times a sum of rows. Their
// gradient starts here: d_rows = weight, times the loss scale where half floats need one. In the first
// `warmup_steps` steps the weight grows: step n = 1, 2, ... has n / warmup_steps of it.
#include <algorithm>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/op.h"

namespace hydrac::ops {

void auxiliary_loss(RegionBuilder& b, Use rows, const AuxiliaryWeight& weight, Use loss, Use gradient_scale) {
  std::vector<Use> inputs{rows, weight.step};
  if (gradient_scale.value != ir::kNoValue) inputs.push_back(gradient_scale);
  b.emit_node(
      ir::Op::auxiliary_loss, std::move(inputs), {loss},
      {{"weight", weight.weight}, {"warmup_steps", weight.warmup_steps}, {"accumulate", weight.accumulate}});
}

namespace {

using ir::Term;

// `step`: which input counts the steps before this one.
Term weight_now(ir::BodyBuilder& k, const ir::Node& node, int step) {
  const ir::Number share =
      ir::spec_number("aux_weight", node.number("weight"), "weight of blocks' losses in a micro-batch");
  const Term whole = k.constant(share, ir::ExprType::f32, "kWeight");
  const int64_t warmup = node.integer("warmup_steps");
  if (warmup == 0) return whole;
  const Term steps = k.constant(ir::spec_number("aux_warmup_steps", warmup, "model.mor.aux_warmup_steps"),
                                ir::ExprType::f32, "kWarmupSteps");
  const Term grown = (convert(k.scalar(step), ir::ExprType::f32) + 1) / steps;
  return k.named("weight", whole * min(k.constant(1), grown));
}

ir::Body auxiliary_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  k.row_sum(0, k.per_row(0) * weight_now(k, node, 1), node.flag("accumulate"));
  return k.take();
}

ir::Body auxiliary_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  const Term weight = weight_now(k, node, 0);
  k.store_row(0, node.inputs.size() > 1 ? weight * k.scalar(1) : weight);
  return k.take();
}

void auxiliary_loss_gradient(Gradient& g, const ir::Node& node) {
  ir::Attributes attributes = node.attributes;
  attributes.erase("accumulate");
  g.contribute_op(node.inputs[0], ir::Op::auxiliary_loss_backward,
                  {node.inputs.begin() + 1, node.inputs.end()}, std::move(attributes));
}

void auxiliary_loss_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  double weight = node.number("weight");
  if (const auto warmup = static_cast<double>(node.integer("warmup_steps")); warmup > 0)
    weight *= std::min(1.0, (in[1].data[0] + 1) / warmup);
  double sum = 0;
  for (const double x : in[0].data) sum += x;
  out[0].data[0] = weight * sum;
}

std::string auxiliary_loss_backward_formula(const ir::Node& node) {
  return node.inputs.size() > 1 ? "d_losses = weight * gradient_scale" : "d_losses = weight";
}

}  // namespace

extern const OpInfo kAuxiliaryLoss{.op = ir::Op::auxiliary_loss,
                                   .formula = "aux_loss += weight * sum of losses",
                                   .inputs = {"losses", "step", "gradient_scale"},
                                   .outputs = {"aux_loss"},
                                   .is_loss = true,
                                   .body = auxiliary_loss_body,
                                   .gradient = auxiliary_loss_gradient,
                                   .reference = auxiliary_loss_reference};
extern const OpInfo kAuxiliaryLossBackward{.op = ir::Op::auxiliary_loss_backward,
                                           .formula = "d_losses = weight * gradient_scale",
                                           .inputs = {"step", "gradient_scale"},
                                           .outputs = {"d_losses"},
                                           .formula_of = auxiliary_loss_backward_formula,
                                           .body = auxiliary_loss_backward_body};

}  // namespace hydrac::ops
