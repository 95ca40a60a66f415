// What a mixture of recursions' router is trained to beside the loss of the targets, over all tokens of a
// micro-batch: depth mean(p) + variance exp(-10 var(p)) + logit max(0, 0.5 - var(logit)), with three weights.
// The first keeps tokens from going deep: mean(p) is their mean depth before it is rounded, as a share of the
// last one. The others keep the router from giving all tokens the same. Variances are of all tokens: their
// squares are divided by the number of tokens.
#include <algorithm>
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/router_probability.h"
#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

constexpr double kSharpness = 10;       // of the probabilities' variance
constexpr double kLeastVariance = 0.5;  // of logits: above it nothing is added

}  // namespace

Use recursion_loss(RegionBuilder& b, Use logit, const RecursionLossWeights& weights,
                   const std::string& name) {
  return b.exact(
      b.emit(ir::Op::recursion_loss, {logit}, name, {},
             {{"depth", weights.depth}, {"variance", weights.variance}, {"logit", weights.logit}}));
}

namespace {

using ir::Term;

Term weight(ir::BodyBuilder& k, const ir::Node& node, const std::string& key, const std::string& name) {
  return k.constant(node.number(key), ir::ExprType::f32, name);
}

// Of all tokens, which are the columns of one row.
struct Moments {
  Term logit, p;  // of a token
  Term mean_logit, mean_p, logit_variance, p_variance;
};

Moments moments(ir::BodyBuilder& k, Term logit) {
  const Term p = router_probability(logit);
  const Term mean_logit = k.named("mean_logit", k.mean(logit, "sum_logits")),
             mean_p = k.named("mean_p", k.mean(p, "sum_p"));
  const Term logit_off = logit - mean_logit, p_off = p - mean_p;
  return {logit,
          p,
          mean_logit,
          mean_p,
          k.named("logit_variance", k.mean(logit_off * logit_off, "sum_logit_squares")),
          k.named("p_variance", k.mean(p_off * p_off, "sum_p_squares"))};
}

ir::Body recursion_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, {});
  k.columns(graph.value(node.inputs[0]).shape);
  const Moments m = moments(k, k.full(0));
  const Term missing = max(kLeastVariance - m.logit_variance, k.constant(0));
  k.store_row(0, weight(k, node, "depth", "kDepthWeight") * m.mean_p +
                     weight(k, node, "variance", "kVarianceWeight") * exp(-kSharpness * m.p_variance) +
                     weight(k, node, "logit", "kLogitWeight") * missing);
  return k.take();
}

// The mean's own derivative by a token sums to 0 in a variance.
ir::Body recursion_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, {});
  k.columns(shape);
  const Moments m = moments(k, k.full(1));
  const double tokens = static_cast<double>(element_count(shape));
  const Term of_variance = k.named("of_variance", weight(k, node, "variance", "kVarianceWeight") *
                                                      (-2 * kSharpness) * exp(-kSharpness * m.p_variance));
  const Term d_p = weight(k, node, "depth", "kDepthWeight") + of_variance * (m.p - m.mean_p);
  const Term of_logits =
      k.named("of_logits", select(m.logit_variance < k.constant(kLeastVariance),
                                  -2 * weight(k, node, "logit", "kLogitWeight"), k.constant(0)));
  const Term sum = d_p * router_probability_derivative(m.logit) + of_logits * (m.logit - m.mean_logit);
  k.store(0, k.scalar(0) / tokens * sum);
  return k.take();
}

void recursion_loss_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::recursion_loss_backward, {*g.of(node.outputs[0]), node.inputs[0]},
                  node.attributes);
}

double variance(const std::vector<double>& numbers) {
  double mean = 0, squares = 0;
  for (const double x : numbers) mean += x / static_cast<double>(numbers.size());
  for (const double x : numbers) squares += (x - mean) * (x - mean);
  return squares / static_cast<double>(numbers.size());
}

void recursion_loss_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  std::vector<double> p;
  double mean = 0;
  for (const double logit : in[0].data) {
    p.push_back(1 / (1 + std::exp(-3 * std::tanh(logit / 2))));
    mean += p.back() / static_cast<double>(in[0].data.size());
  }
  out[0].data[0] = node.number("depth") * mean +
                   node.number("variance") * std::exp(-kSharpness * variance(p)) +
                   node.number("logit") * std::max(0.0, kLeastVariance - variance(in[0].data));
}

}  // namespace

extern const OpInfo kRecursionLoss{
    .op = ir::Op::recursion_loss,
    .formula =
        "loss = depth_weight mean(p) + variance_weight exp(-10 var(p)) + logit_weight max(0, 0.5 - "
        "var(logit)), p = sigmoid(3 tanh(logit / 2))",
    .inputs = {"logit"},
    .outputs = {"loss"},
    .body = recursion_loss_body,
    .gradient = recursion_loss_gradient,
    .reference = recursion_loss_reference};
extern const OpInfo kRecursionLossBackward{.op = ir::Op::recursion_loss_backward,
                                           .formula = "d_logit = d_loss loss'(logit)",
                                           .inputs = {"d_loss", "logit"},
                                           .outputs = {"d_logit"},
                                           .body = recursion_loss_backward_body};

}  // namespace hydrac::ops
