// Cross-entropy of softmax(logits) against token ids, one loss a row, with label smoothing e (Szegedy et al.,
// 2016):
//   loss = lse - (1-e) * x[target] - e * mean(x),  d_x = (softmax(x) - (1-e) * [c = target] - e/V) * d_loss.
// Rows with the target -100 are ignored: loss and gradient 0.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use cross_entropy(RegionBuilder& b, Use logits, Use targets, double label_smoothing,
                  const std::string& name) {
  const Use rows = b.emit("cross_entropy", {logits, targets}, name, b.shape(targets),
                          {{"label_smoothing", label_smoothing}, {"ignore_index", kIgnoredTarget}});
  b.region().nodes.back().outputs.push_back(b.fresh(name + ".lse", b.shape(targets)));
  return rows;
}

namespace {

using ir::ExprType;
using ir::Term;

ir::Body body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term logits = k.full(0), target = k.per_row(1);
  const Term zero = k.constant(0, ExprType::i32);
  const double e = node.number("label_smoothing");
  const Term lse = k.logsumexp(logits);
  std::vector<ir::Affine> rows;
  for (size_t i = 0; i < graph.value(node.inputs[1]).shape.size(); ++i)
    rows.push_back(k.row(static_cast<int>(i)));
  const Term at_target = k.gather(0, max(target, zero), rows, {});
  const Term loss = e > 0 ? lse - (1 - e) * at_target - e * k.mean(logits) : lse - at_target;
  k.store_row(0, select(target < zero, k.constant(0), loss));
  k.store_row(1, lse);
  return k.take();
}

// Inputs: logits, targets, lse, d_loss.
ir::Body backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term target = k.per_row(1);
  const double e = node.number("label_smoothing");
  const Term scale = select(target < k.constant(0, ExprType::i32), k.constant(0), k.per_row(3));
  Term p = exp(k.full(0) - k.per_row(2));
  if (e > 0) p = p - e / static_cast<double>(graph.value(node.inputs[0]).shape.back().size);
  const Term hit = k.position(k.column(0)) == convert(target, ExprType::i64);
  k.store(0, (p - select(hit, k.constant(1 - e), k.constant(0))) * scale);
  return k.take();
}

void gradient(Gradient& g, const ir::Node& node) {
  const Use d_rows = *g.of(node.outputs[0]);
  g.contribute_op(node.inputs[0], "cross_entropy_backward",
                  {node.inputs[0], node.inputs[1], node.outputs[1], d_rows}, node.attributes);
}

void reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t v = in[0].shape.back();
  const double e = node.number("label_smoothing");
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    const double* x = &in[0].data[r * v];
    const auto target = static_cast<int64_t>(in[1].data[r]);
    double sum = 0, mean = 0;
    for (int64_t i = 0; i < v; ++i) sum += std::exp(x[i]);
    for (int64_t i = 0; i < v; ++i) mean += x[i] / static_cast<double>(v);
    const double lse = std::log(sum);
    out[0].data[r] = target == kIgnoredTarget ? 0 : lse - (1 - e) * x[target] - e * mean;
    out[1].data[r] = lse;
  }
}

}  // namespace

extern const OpInfo kCrossEntropy{.name = "cross_entropy",
                                  .formula = "loss = logsumexp(x) - (1-e) x[target] - e mean(x)",
                                  .body = body,
                                  .gradient = gradient,
                                  .reference = reference};
extern const OpInfo kCrossEntropyBackward{.name = "cross_entropy_backward",
                                          .formula = "d_x = (softmax(x) - (1-e)[c = target] - e/V) d_loss",
                                          .body = backward_body};

}  // namespace hydrac::ops
