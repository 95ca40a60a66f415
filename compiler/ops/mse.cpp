// Mean squared error of a row's outputs; targets that are NaN are missing and count nothing.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use mse(RegionBuilder& b, Use prediction, Use targets, const std::string& name) {
  return b.exact(b.emit("mse", {prediction, targets}, name, leading(b.shape(prediction))));
}

namespace {

ir::Term error(ir::BodyBuilder& k) {
  const ir::Term target = k.named("target", k.full(1));
  return k.named("error", select(is_nan(target), k.constant(0), k.full(0) - target));
}

ir::Body body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term e = error(k);
  k.store_row(0, k.mean(e * e));
  return k.take();
}

// Inputs: prediction, targets, d_loss.
ir::Body backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const double outputs = static_cast<double>(graph.value(node.inputs[0]).shape.back().size);
  k.store(0, error(k) * (k.per_row(2) * (2 / outputs)));
  return k.take();
}

void gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], "mse_backward", {node.inputs[0], node.inputs[1], *g.of(node.outputs[0])});
}

void reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t n = in[0].shape.back();
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double target = in[1].data[r * n + i];
      if (!std::isnan(target)) sum += (in[0].data[r * n + i] - target) * (in[0].data[r * n + i] - target);
    }
    out[0].data[r] = sum / static_cast<double>(n);
  }
}

}  // namespace

extern const OpInfo kMse{.name = "mse",
                         .formula = "losses = mean((predictions - targets)^2)",
                         .inputs = {"predictions", "targets"},
                         .outputs = {"losses"},
                         .body = body,
                         .gradient = gradient,
                         .reference = reference};
extern const OpInfo kMseBackward{.name = "mse_backward",
                                 .formula = "d_predictions = 2 (predictions - targets) / O * d_losses",
                                 .inputs = {"predictions", "targets", "d_losses"},
                                 .outputs = {"d_predictions"},
                                 .body = backward_body};

}  // namespace hydrac::ops
