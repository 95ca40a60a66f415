// The step's loss: rows' losses summed and normalized by the number of targets of the whole optimizer step,
// so that micro-batches of unequal size weigh as one big batch would; each row times its weight, where rows
// have weights. The gradient starts here: d_rows = inv_count * weights, times the loss scale where half
// floats need one.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

void mean_loss(RegionBuilder& b, Use rows, Use inv_count, Use loss, bool accumulate, Use gradient_scale,
               Use weights) {
  std::vector<Use> inputs{rows, inv_count};
  const bool has_weights = weights.value != ir::kNoValue;
  if (gradient_scale.value != ir::kNoValue || has_weights) inputs.push_back(gradient_scale);
  if (has_weights) inputs.push_back(weights);
  b.emit_node(ir::Op::mean_loss, std::move(inputs), {loss}, {{"accumulate", accumulate}});
}

namespace {

using ir::Term;

ir::Body mean_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  const Term loss = node.inputs.size() == 4 ? k.per_row(0) * k.per_row(3) : k.per_row(0);
  k.row_sum(0, loss * k.scalar(1), node.flag("accumulate"));
  return k.take();
}

ir::Body mean_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  Term gradient = k.scalar(0);
  if (node.inputs.size() > 1 && node.inputs[1].value != ir::kNoValue) gradient = gradient * k.scalar(1);
  k.store_row(0, node.inputs.size() == 3 ? gradient * k.per_row(2) : gradient);
  return k.take();
}

void mean_loss_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::mean_loss_backward, {node.inputs.begin() + 1, node.inputs.end()});
}

void mean_loss_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  double sum = 0;
  for (size_t i = 0; i < in[0].data.size(); ++i)
    sum += in.size() == 4 ? in[0].data[i] * in[3].data[i] : in[0].data[i];
  out[0].data[0] = sum * in[1].data[0];
}

std::string mean_loss_backward_formula(const ir::Node& node) {
  const bool is_scaled = node.inputs.size() > 1 && node.inputs[1].value != ir::kNoValue;
  return std::string("d_losses = inv_count") + (is_scaled ? " * gradient_scale" : "") +
         (node.inputs.size() == 3 ? " * weights" : "");
}

}  // namespace

extern const OpInfo kMeanLoss{.op = ir::Op::mean_loss,
                              .formula = "loss += inv_count * sum of losses",
                              .inputs = {"losses", "inv_count", "gradient_scale", "weights"},
                              .outputs = {"loss"},
                              .is_loss = true,
                              .body = mean_loss_body,
                              .gradient = mean_loss_gradient,
                              .reference = mean_loss_reference};
extern const OpInfo kMeanLossBackward{.op = ir::Op::mean_loss_backward,
                                      .formula = "d_losses = inv_count * gradient_scale",
                                      .inputs = {"inv_count", "gradient_scale", "weights"},
                                      .outputs = {"d_losses"},
                                      .formula_of = mean_loss_backward_formula,
                                      .body = mean_loss_backward_body};

}  // namespace hydrac::ops
