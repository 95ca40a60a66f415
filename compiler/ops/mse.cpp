// Mean squared error of a row's outputs, or the mean of a user's function of (prediction, target); targets
// that are NaN are missing and count nothing.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"
#include "ops/user_function.h"

namespace hydrac::ops {

Use mse(RegionBuilder& b, Use prediction, Use targets, const std::string& name) {
  return b.exact(b.emit(ir::Op::mse, {prediction, targets}, name, leading(b.shape(prediction))));
}

Use pointwise_loss(RegionBuilder& b, const functions::Function& function, Use prediction, Use targets,
                   const std::string& name) {
  return b.exact(b.emit(ir::Op::pointwise_loss, {prediction, targets}, name, leading(b.shape(prediction)),
                        function_attributes(function)));
}

namespace {

ir::Term error(ir::BodyBuilder& k) {
  const ir::Term target = k.named("target", k.full(1));
  return k.named("error", select(is_nan(target), k.constant(0), k.full(0) - target));
}

ir::Body mse_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term e = error(k);
  k.store_row(0, k.mean(e * e));
  return k.take();
}

// Inputs: prediction, targets, d_loss.
ir::Body mse_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const double outputs = static_cast<double>(graph.value(node.inputs[0]).shape.back().size);
  k.store(0, error(k) * (k.per_row(2) * (2 / outputs)));
  return k.take();
}

std::string function_kernel(const ir::Node& node) {
  return kernel_name(*function_of(node)) + "_loss";
}
std::string function_backward_kernel(const ir::Node& node) {
  return function_kernel(node) + "_backward";
}

ir::Body function_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term target = k.full(1);
  k.store_row(
      0, k.mean(select(is_nan(target), k.constant(0), call(k, *function_of(node), {k.full(0), target}))));
  return k.take();
}

// Inputs: prediction, targets, d_loss.
ir::Body function_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const double outputs = static_cast<double>(graph.value(node.inputs[0]).shape.back().size);
  const ir::Term target = k.full(1);
  const ir::Term derivative = call_derivative(k, *function_of(node), 0, {k.full(0), target});
  k.store(0, select(is_nan(target), k.constant(0), derivative) * (k.per_row(2) * (1 / outputs)));
  return k.take();
}

void function_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::pointwise_loss_backward,
                  {node.inputs[0], node.inputs[1], *g.of(node.outputs[0])}, node.attributes);
}

void mse_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::mse_backward,
                  {node.inputs[0], node.inputs[1], *g.of(node.outputs[0])});
}

template <class Loss>
void mean_over_rows(const std::vector<Tensor64>& in, std::vector<Tensor64>& out, const Loss& loss) {
  const int64_t n = in[0].shape.back();
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double target = in[1].data[r * n + i];
      if (!std::isnan(target)) sum += loss(in[0].data[r * n + i], target);
    }
    out[0].data[r] = sum / static_cast<double>(n);
  }
}

void mse_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  mean_over_rows(in, out, [](double y, double target) { return (y - target) * (y - target); });
}

void function_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const functions::Function& function = *function_of(node);
  mean_over_rows(in, out, [&](double y, double target) { return evaluate<double>(function, {y, target}); });
}

}  // namespace

extern const OpInfo kMse{.op = ir::Op::mse,
                         .formula = "losses = mean((predictions - targets)^2)",
                         .inputs = {"predictions", "targets"},
                         .outputs = {"losses"},
                         .body = mse_body,
                         .gradient = mse_gradient,
                         .reference = mse_reference};
extern const OpInfo kMseBackward{.op = ir::Op::mse_backward,
                                 .formula = "d_predictions = 2 (predictions - targets) / O * d_losses",
                                 .inputs = {"predictions", "targets", "d_losses"},
                                 .outputs = {"d_predictions"},
                                 .body = mse_backward_body};
extern const OpInfo kPointwiseLoss{.op = ir::Op::pointwise_loss,
                                   .formula = "losses = mean over outputs of f(predictions, targets)",
                                   .inputs = {"predictions", "targets"},
                                   .outputs = {"losses"},
                                   .kernel = function_kernel,
                                   .body = function_body,
                                   .gradient = function_gradient,
                                   .reference = function_reference};
extern const OpInfo kPointwiseLossBackward{
    .op = ir::Op::pointwise_loss_backward,
    .formula = "d_predictions = f'(predictions, targets) / O * d_losses",
    .inputs = {"predictions", "targets", "d_losses"},
    .outputs = {"d_predictions"},
    .kernel = function_backward_kernel,
    .body = function_backward_body};

}  // namespace hydrac::ops
