// Losses of a router of experts, a row a token: `balance` times the sum over experts of load * share, where
// load is how many tokens of the micro-batch have chosen the expert and share the token's score of it, of
// shares that sum to 1 (Switch Transformers, 2021); and `z` times the square of the logits' logsumexp
// (ST-MoE, 2022). No gradient flows through the load. And the entropy of the shares.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use router_loss(RegionBuilder& b, Use logits, Use scores, Use load, const RouterLossWeights& weights,
                const std::string& name) {
  return b.exact(b.emit(ir::Op::router_loss, {logits, scores, load}, name, leading(b.shape(logits)),
                        {{"balance", weights.balance}, {"z", weights.z}}));
}

Use router_entropy(RegionBuilder& b, Use scores, const std::string& name) {
  return b.exact(b.emit(ir::Op::router_entropy, {scores}, name, leading(b.shape(scores))));
}

namespace {

using ir::Term;

constexpr double kLeastShare = 1e-20;  // whose logarithm is taken

Term weight_of(ir::BodyBuilder& k, const ir::Node& node, const std::string& key, const std::string& name) {
  return k.constant(node.number(key), ir::ExprType::f32, name);
}

Term sum_of_scores(ir::BodyBuilder& k, Term scores) {
  return k.named("sum", k.sum(scores));
}

ir::Body router_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term score = k.full(1), sum = sum_of_scores(k, score);
  const Term lse = k.named("lse", k.logsumexp(k.full(0)));
  k.store_row(0, weight_of(k, node, "balance", "kBalance") * (k.sum(k.per_column(2) * score) / sum) +
                     weight_of(k, node, "z", "kZ") * (lse * lse));
  return k.take();
}

// Inputs: d_losses, logits, scores, load. Outputs: d_logits, d_scores.
ir::Body router_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node, 1);
  const Term d_loss = k.per_row(0), logit = k.full(1), score = k.full(2), load = k.per_column(3);
  const Term sum = sum_of_scores(k, score), lse = k.named("lse", k.logsumexp(logit));
  const Term mean = k.named("mean_load", k.sum(load * score) / sum);
  k.store(0, d_loss * weight_of(k, node, "z", "kZ") * 2 * lse * exp(logit - lse));
  k.store(1, d_loss * weight_of(k, node, "balance", "kBalance") / sum * (load - mean));
  return k.take();
}

ir::Body router_entropy_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term score = k.full(0), share = score / sum_of_scores(k, score);
  k.store_row(0, -k.sum(share * log(max(share, k.constant(kLeastShare)))));
  return k.take();
}

void router_loss_gradient(Gradient& g, const ir::Node& node) {
  const Use d_logits = g.exact(g.fresh(g.name_of(node.inputs[0]), g.shape(node.inputs[0]))),
            d_scores = g.exact(g.fresh(g.name_of(node.inputs[1]), g.shape(node.inputs[1])));
  std::vector<Use> inputs = node.inputs;
  inputs.insert(inputs.begin(), *g.of(node.outputs[0]));
  g.emit_node(ir::Op::router_loss_backward, std::move(inputs), {d_logits, d_scores}, node.attributes);
  g.contribute(node.inputs[0], d_logits);
  g.contribute(node.inputs[1], d_scores);
}

void router_loss_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                           std::vector<Tensor64>& out) {
  const auto experts = static_cast<size_t>(in[0].shape.back());
  for (size_t t = 0; t < out[0].data.size(); ++t) {
    double sum = 0, exps = 0, loads = 0;
    for (size_t e = 0; e < experts; ++e) {
      sum += in[1].data[t * experts + e];
      exps += std::exp(in[0].data[t * experts + e]);
      loads += in[2].data[e] * in[1].data[t * experts + e];
    }
    out[0].data[t] = node.number("balance") * loads / sum + node.number("z") * std::pow(std::log(exps), 2);
  }
}

void router_entropy_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const auto experts = static_cast<size_t>(in[0].shape.back());
  for (size_t t = 0; t < out[0].data.size(); ++t) {
    const double* scores = &in[0].data[t * experts];
    double sum = 0;
    for (size_t e = 0; e < experts; ++e) sum += scores[e];
    out[0].data[t] = 0;
    for (size_t e = 0; e < experts; ++e) out[0].data[t] -= scores[e] / sum * std::log(scores[e] / sum);
  }
}

}  // namespace

extern const OpInfo kRouterLoss{
    .op = ir::Op::router_loss,
    .formula = "loss = balance * sum of load scores / sum of scores + z * logsumexp(logits)^2",
    .inputs = {"logits", "scores", "load"},
    .outputs = {"losses"},
    .body = router_loss_body,
    .gradient = router_loss_gradient,
    .reference = router_loss_reference};
extern const OpInfo kRouterLossBackward{.op = ir::Op::router_loss_backward,
                                        .formula =
                                            "d_logits = 2 z lse softmax(logits) d_loss\n"
                                            "d_scores = balance / sum of scores * (load - mean_load) d_loss",
                                        .inputs = {"d_losses", "logits", "scores", "load"},
                                        .outputs = {"d_logits", "d_scores"},
                                        .body = router_loss_backward_body};
extern const OpInfo kRouterEntropy{.op = ir::Op::router_entropy,
                                   .formula = "entropy = -sum of share log(share), share = score / sum",
                                   .inputs = {"scores"},
                                   .outputs = {"entropy"},
                                   .body = router_entropy_body,
                                   .reference = router_entropy_reference};

}  // namespace hydrac::ops
