// The auxiliary loss of a mixture of recursions' router, over all tokens of a micro-batch: depth mean(p) +
// variance exp(-10 var(p)) + logit max(0, 0.5 - var(logit)), with three weights. The first keeps tokens from
// going deep: mean(p) is their mean depth before it is rounded, as a share of the last one. The others keep
// the router from giving all tokens the same. Variances are of all tokens: their squares are divided by the
// number of tokens.
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
  std::vector<Use> outputs = {b.exact(b.fresh(name, {}))};
  for (const char* part : {".mean_logit", ".mean_p", ".of_variance", ".of_logits"})
    outputs.push_back(b.exact(b.fresh(name + part, {})));
  b.emit_node(ir::Op::recursion_loss, {logit}, outputs,
              {{"depth", weights.depth}, {"variance", weights.variance}, {"logit", weights.logit}});
  return outputs[0];
}

namespace {

using ir::Term;

Term weight(ir::BodyBuilder& k, const ir::Node& node, const std::string& key, const std::string& name) {
  const ir::Number number =
      ir::spec_number("aux_" + key + "_weight", node.number(key), "a weight of model.mor's auxiliary loss");
  return k.constant(number, ir::ExprType::f32, name);
}

// All tokens are the columns of one row. In addition to the loss it leaves what a token's gradient is made
// of: the means, and the loss's derivatives by a token's p and logit, each divided by its distance from its
// mean (the mean's own derivative by a token sums to 0 in a variance).
ir::Body recursion_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, {});
  k.columns(graph.value(node.inputs[0]).shape);
  const Term logit = k.full(0), p = router_probability(logit);
  const Term mean_logit = k.named("mean_logit", k.mean(logit, "sum_logits")),
             mean_p = k.named("mean_p", k.mean(p, "sum_p"));
  const Term logit_off = logit - mean_logit, p_off = p - mean_p;
  const Term logit_variance = k.named("logit_variance", k.mean(logit_off * logit_off, "sum_logit_squares")),
             p_variance = k.named("p_variance", k.mean(p_off * p_off, "sum_p_squares"));
  const Term of_sameness =
      k.named("of_sameness", weight(k, node, "variance", "kVarianceWeight") * exp(-kSharpness * p_variance));
  const Term missing = max(kLeastVariance - logit_variance, k.constant(0));
  k.store_row(0, weight(k, node, "depth", "kDepthWeight") * mean_p + of_sameness +
                     weight(k, node, "logit", "kLogitWeight") * missing);
  k.store_row(1, mean_logit);
  k.store_row(2, mean_p);
  k.store_row(3, of_sameness * (-2 * kSharpness));
  k.store_row(4, select(logit_variance < k.constant(kLeastVariance),
                        -2 * weight(k, node, "logit", "kLogitWeight"), k.constant(0)));
  return k.take();
}

ir::Body recursion_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, shape);
  const Term logit = k.per_row(1), mean_logit = k.scalar(2), mean_p = k.scalar(3), of_variance = k.scalar(4),
             of_logits = k.scalar(5);
  const Term d_p =
      weight(k, node, "depth", "kDepthWeight") + of_variance * (router_probability(logit) - mean_p);
  const Term sum = d_p * router_probability_derivative(logit) + of_logits * (logit - mean_logit);
  k.store_row(0, k.scalar(0) / static_cast<double>(element_count(shape)) * sum);
  return k.take();
}

void recursion_loss_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> inputs = {*g.of(node.outputs[0]), node.inputs[0]};
  inputs.insert(inputs.end(), node.outputs.begin() + 1, node.outputs.end());
  ir::Attributes attributes = node.attributes;
  attributes["alone"] = true;  // a norm's gradient in the same kernel has no registers to spare
  g.contribute_op(node.inputs[0], ir::Op::recursion_loss_backward, std::move(inputs), std::move(attributes));
}

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(const std::vector<double>& numbers) {
  Moments of;
  for (const double x : numbers) of.mean += x / static_cast<double>(numbers.size());
  for (const double x : numbers)
    of.variance += std::pow(x - of.mean, 2) / static_cast<double>(numbers.size());
  return of;
}

void recursion_loss_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  std::vector<double> probabilities;
  for (const double logit : in[0].data)
    probabilities.push_back(1 / (1 + std::exp(-3 * std::tanh(logit / 2))));
  const Moments logit = moments(in[0].data), p = moments(probabilities);
  const double of_sameness = node.number("variance") * std::exp(-kSharpness * p.variance);
  out[0].data[0] = node.number("depth") * p.mean + of_sameness +
                   node.number("logit") * std::max(0.0, kLeastVariance - logit.variance);
  out[1].data[0] = logit.mean;
  out[2].data[0] = p.mean;
  out[3].data[0] = -2 * kSharpness * of_sameness;
  out[4].data[0] = logit.variance < kLeastVariance ? -2 * node.number("logit") : 0;
}

}  // namespace

extern const OpInfo kRecursionLoss{
    .op = ir::Op::recursion_loss,
    .formula =
        "loss = depth_weight mean(p) + variance_weight exp(-10 var(p)) + logit_weight max(0, 0.5 - "
        "var(logit)), p = sigmoid(3 tanh(logit / 2))",
    .inputs = {"logit"},
    .outputs = {"loss", "mean_logit", "mean_p", "of_variance", "of_logits"},
    .body = recursion_loss_body,
    .gradient = recursion_loss_gradient,
    .reference = recursion_loss_reference};
extern const OpInfo kRecursionLossBackward{
    .op = ir::Op::recursion_loss_backward,
    .formula = "d_logit = d_loss loss'(logit)",
    .inputs = {"d_loss", "logit", "mean_logit", "mean_p", "of_variance", "of_logits"},
    .outputs = {"d_logit"},
    .body = recursion_loss_backward_body};

}  // namespace hydrac::ops
