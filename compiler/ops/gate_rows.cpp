// Each row times the sigmoid of its score, by which a router learns: y = x g, g = sigmoid(score), so that
// d_score = g (1 - g) sum(d_y x).
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use gate_rows(RegionBuilder& b, Use x, Use score, const std::string& name) {
  return b.emit(ir::Op::gate_rows, {x, score}, name, b.shape(x));
}

namespace {

ir::Body gate_rows_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) * k.named("gate", sigmoid(k.per_row(1))));
  return k.take();
}

// Inputs: d_y, x, score.
ir::Body gate_rows_score_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term gate = k.named("gate", sigmoid(k.per_row(2)));
  k.store_row(0, k.named("sum_dy_x", k.sum(k.full(0) * k.full(1))) * (gate * (1 - gate)));
  return k.take();
}

void gate_rows_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]), x = node.inputs[0], score = node.inputs[1];
  g.contribute_op(x, ir::Op::gate_rows, {dy, score}, {{"input_name", "d_y"}, {"output_name", "d_x"}});
  g.contribute_op(score, ir::Op::gate_rows_score_gradient, {dy, x, score});
}

void gate_rows_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t columns = static_cast<size_t>(in[0].shape.back());
  for (size_t i = 0; i < out[0].data.size(); ++i)
    out[0].data[i] = in[0].data[i] / (1 + std::exp(-in[1].data[i / columns]));
}

}  // namespace

extern const OpInfo kGateRows{.op = ir::Op::gate_rows,
                              .formula = "y = x sigmoid(score), of each row",
                              .inputs = {"x", "score"},
                              .outputs = {"y"},
                              .body = gate_rows_body,
                              .gradient = gate_rows_gradient,
                              .reference = gate_rows_reference};
extern const OpInfo kGateRowsScoreGradient{
    .op = ir::Op::gate_rows_score_gradient,
    .formula = "d_score = gate (1 - gate) sum of d_y x, gate = sigmoid(score)",
    .inputs = {"d_y", "x", "score"},
    .outputs = {"d_score"},
    .body = gate_rows_score_gradient_body};

}  // namespace hydrac::ops
