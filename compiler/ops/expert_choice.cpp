// A router's choice of k experts for each token, from its logits f32 [..,E]: scores, their ranks, the k
// experts with the highest scores (of equal ones the first), and the weights of what these compute. Ranks
// count integers, so that every target makes the same choice of the same scores. Gradients reach the scores
// through the weights alone.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use router_scores(RegionBuilder& b, Use logits, bool sigmoid, const std::string& name) {
  return b.exact(b.emit(ir::Op::router_scores, {logits}, name, b.shape(logits), {{"sigmoid", sigmoid}}));
}

ExpertChoice choose_experts(RegionBuilder& b, Use scores, ir::Dim chosen, Use experts) {
  const ir::Shape shape = b.shape(scores);
  const Use ranks = b.fresh("expert_ranks", shape, ir::DType::i32);
  b.emit_node(ir::Op::expert_ranks, {scores}, {ranks});
  if (experts.value == ir::kNoValue)
    experts = b.fresh("chosen_experts", with_last(shape, std::move(chosen)), ir::DType::i32);
  b.emit_node(ir::Op::chosen_experts, {ranks}, {experts});
  return {experts, ranks};
}

Use expert_weights(RegionBuilder& b, Use scores, const ExpertChoice& choice, bool normalize, double factor,
                   const std::string& name) {
  return b.exact(b.emit(ir::Op::expert_weights, {scores, choice.experts, choice.ranks}, name,
                        b.shape(choice.experts), {{"normalize", normalize}, {"factor", factor}}));
}

Use expert_load(RegionBuilder& b, const ExpertChoice& choice, const std::string& name) {
  const auto chosen = b.shape(choice.experts).back().size;
  return b.exact(
      b.emit(ir::Op::expert_load, {choice.ranks}, name, last(b.shape(choice.ranks)), {{"chosen", chosen}}));
}

Use largest_load(RegionBuilder& b, Use load, const std::string& name) {
  return b.exact(b.emit(ir::Op::largest_load, {load}, name, {}));
}

namespace {

using ir::ExprType;
using ir::Term;

// The body's row, then the current column or another place behind it.
std::vector<ir::Affine> in_row(const ir::BodyBuilder& k, size_t dimensions, ir::Affine at) {
  std::vector<ir::Affine> index;
  for (size_t i = 0; i + 1 < dimensions; ++i) index.push_back(k.row(static_cast<int>(i)));
  index.push_back(std::move(at));
  return index;
}

std::vector<ir::Affine> row_of(const ir::BodyBuilder& k, size_t dimensions) {
  std::vector<ir::Affine> index = in_row(k, dimensions, {});
  index.pop_back();
  return index;
}

ir::Body router_scores_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term logit = k.full(0);
  k.store(0, node.flag("sigmoid") ? sigmoid(logit) : exp(logit - k.named("lse", k.logsumexp(logit))));
  return k.take();
}

// Inputs: d_scores, scores.
ir::Body router_scores_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term d_score = k.full(0), score = k.full(1);
  if (node.flag("sigmoid"))
    k.store(0, d_score * score * (1 - score));
  else
    k.store(0, (d_score - k.named("sum", k.sum(d_score * score))) * score);
  return k.take();
}

void router_scores_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::router_scores_backward, {*g.of(node.outputs[0]), node.outputs[0]},
                  node.attributes);
}

void router_scores_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                             std::vector<Tensor64>& out) {
  const auto experts = static_cast<size_t>(in[0].shape.back());
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double* row = &in[0].data[i / experts * experts];
    double sum = 0;
    for (size_t e = 0; e < experts; ++e) sum += std::exp(row[e] - in[0].data[i]);
    out[0].data[i] = node.flag("sigmoid") ? 1 / (1 + std::exp(-in[0].data[i])) : 1 / sum;
  }
}

std::string router_scores_formula(const ir::Node& node) {
  return node.flag("sigmoid") ? "scores = sigmoid(logits)" : "scores = softmax(logits)";
}
std::string router_scores_backward_formula(const ir::Node& node) {
  return node.flag("sigmoid") ? "d_logits = d_scores scores (1 - scores)"
                              : "d_logits = (d_scores - sum of d_scores scores) scores";
}

// A row for each expert of each token; its columns are the token's experts.
ir::Body expert_ranks_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, shape);
  k.columns(last(shape));
  const ir::Affine expert = k.row(static_cast<int>(shape.size()) - 1);
  const Term own = k.named("score", k.per_row(0));
  const Term other = k.named("other_score", k.load(0, in_row(k, shape.size(), k.column(0))));
  const Term is_before = k.position(k.column(0)) < k.position(expert);
  const Term is_ahead = own < other || (is_before && other == own);
  k.store_row(
      0, k.named("ahead", convert(k.sum(select(is_ahead, k.constant(1), k.constant(0))), ExprType::i32)));
  return k.take();
}

// One expert has the rank, so the sum is its number. Scores that are no numbers have equal ranks: the bound
// keeps the result an expert.
ir::Body chosen_experts_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& ranks = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  k.columns(last(ranks));
  const ir::Affine place = k.row(static_cast<int>(ranks.size()) - 1);
  const Term rank = k.named("rank", k.load(0, in_row(k, ranks.size(), k.column(0))));
  const Term is_here = rank == convert(k.position(place), ExprType::i32);
  const Term number = convert(k.position(k.column(0)), ExprType::f32);
  const Term expert =
      k.named("expert", convert(k.sum(select(is_here, number, k.constant(0))), ExprType::i32));
  const auto last_expert = static_cast<double>(ranks.back().size - 1);
  k.store_row(0, min(expert, k.constant(last_expert, ExprType::i32, "kLastExpert")));
  return k.take();
}

// The chosen experts' scores as columns, their sum, and what a score is multiplied by.
struct ChosenScores {
  Term score, sum, factor;
};
ChosenScores chosen_scores(ir::BodyBuilder& k, const ir::Graph& graph, const ir::Node& node, int scores) {
  const size_t dimensions = graph.value(node.inputs[scores]).shape.size();
  const Term expert = k.named("expert", k.full(scores + 1));
  const Term score = k.named("score", k.gather(scores, expert, row_of(k, dimensions), {}));
  const Term factor = k.constant(node.number("factor"), ExprType::f32, "kFactor");
  if (!node.flag("normalize")) return {score, factor, factor};
  const Term sum = k.named("sum", k.sum(score));
  return {score, sum, factor / sum};
}

ir::Body expert_weights_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node, 1);
  const ChosenScores chosen = chosen_scores(k, graph, node, 0);
  k.store(0, chosen.score * chosen.factor);
  return k.take();
}

// Inputs: d_weights, scores, chosen experts, ranks. An expert's rank is its place among the chosen ones.
ir::Body expert_weights_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node, 0);
  const ir::Shape& shape = graph.value(node.inputs[1]).shape;
  const int64_t count = graph.value(node.inputs[0]).shape.back().size;
  const ChosenScores chosen = chosen_scores(k, graph, node, 1);
  const bool normalizes = node.flag("normalize");
  const Term mean = normalizes ? k.named("mean", k.sum(k.full(0) * chosen.score) / chosen.sum) : chosen.sum;
  k.columns(last(shape));
  const Term rank = k.named("rank", k.full(3));
  const Term place = min(rank, k.constant(static_cast<double>(count - 1), ExprType::i32, "kLastChosen"));
  const Term d_weight = k.named("d_weight", k.gather(0, place, row_of(k, shape.size()), {}));
  const Term d_score = (normalizes ? d_weight - mean : d_weight) * chosen.factor;
  const Term is_chosen = rank < k.constant(static_cast<double>(count), ExprType::i32, "kChosen");
  k.store(0, select(is_chosen, d_score, k.constant(0)));
  return k.take();
}

void expert_weights_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::expert_weights_backward,
                  {*g.of(node.outputs[0]), node.inputs[0], node.inputs[1], node.inputs[2]}, node.attributes);
}

void expert_weights_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  const int64_t experts = in[0].shape.back(), chosen = in[1].shape.back();
  for (int64_t t = 0; t < row_count(in[0]); ++t) {
    double sum = 0;
    const auto score = [&](int64_t j) {
      return in[0].data[t * experts + static_cast<int64_t>(in[1].data[t * chosen + j])];
    };
    for (int64_t j = 0; j < chosen; ++j) sum += score(j);
    for (int64_t j = 0; j < chosen; ++j)
      out[0].data[t * chosen + j] = node.number("factor") * score(j) / (node.flag("normalize") ? sum : 1);
  }
}

std::string expert_weights_formula(const ir::Node& node) {
  return node.flag("normalize") ? "weights = factor * scores[experts] / sum of these"
                                : "weights = factor * scores[experts]";
}
std::string expert_weights_backward_formula(const ir::Node& node) {
  return node.flag("normalize")
             ? "d_scores[experts] = factor / sum * (d_weights - mean), mean = sum of d_weights scores / sum"
             : "d_scores[experts] = factor * d_weights";
}

ir::Body expert_load_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const auto chosen = static_cast<double>(node.integer("chosen"));
  const Term is_chosen = k.full(0) < k.constant(chosen, ExprType::i32, "kChosen");
  k.column_sum(0, select(is_chosen, k.constant(1), k.constant(0)), false);
  return k.take();
}

ir::Body largest_load_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store_row(0, k.maximum(k.full(0)));
  return k.take();
}

void expert_ranks_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t experts = in[0].shape.back();
  for (int64_t t = 0; t < row_count(in[0]); ++t) {
    std::vector<int64_t> order(experts);
    std::iota(order.begin(), order.end(), 0);
    const double* scores = &in[0].data[t * experts];
    std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return scores[i] > scores[j]; });
    for (int64_t rank = 0; rank < experts; ++rank)
      out[0].data[t * experts + order[rank]] = static_cast<double>(rank);
  }
}

void chosen_experts_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t experts = in[0].shape.back(), chosen = out[0].shape.back();
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const auto token = static_cast<int64_t>(i) / experts, rank = static_cast<int64_t>(in[0].data[i]);
    if (rank < chosen) out[0].data[token * chosen + rank] = static_cast<double>(i % experts);
  }
}

void expert_load_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                           std::vector<Tensor64>& out) {
  const auto experts = static_cast<size_t>(in[0].shape.back());
  std::ranges::fill(out[0].data, 0);
  for (size_t i = 0; i < in[0].data.size(); ++i)
    if (in[0].data[i] < static_cast<double>(node.integer("chosen"))) out[0].data[i % experts] += 1;
}

void largest_load_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  out[0].data[0] = *std::ranges::max_element(in[0].data);
}

}  // namespace

extern const OpInfo kRouterScores{.op = ir::Op::router_scores,
                                  .formula = "scores = softmax(logits)",
                                  .inputs = {"logits"},
                                  .outputs = {"scores"},
                                  .formula_of = router_scores_formula,
                                  .body = router_scores_body,
                                  .gradient = router_scores_gradient,
                                  .reference = router_scores_reference};
extern const OpInfo kRouterScoresBackward{.op = ir::Op::router_scores_backward,
                                          .formula = "d_logits = (d_scores - sum of d_scores scores) scores",
                                          .inputs = {"d_scores", "scores"},
                                          .outputs = {"d_logits"},
                                          .formula_of = router_scores_backward_formula,
                                          .body = router_scores_backward_body};
extern const OpInfo kExpertRanks{.op = ir::Op::expert_ranks,
                                 .formula = "rank = how many experts have a higher score of the token",
                                 .inputs = {"scores"},
                                 .outputs = {"ranks"},
                                 .body = expert_ranks_body,
                                 .reference = expert_ranks_reference};
extern const OpInfo kChosenExperts{.op = ir::Op::chosen_experts,
                                   .formula = "expert = the one with this rank",
                                   .inputs = {"ranks"},
                                   .outputs = {"experts"},
                                   .body = chosen_experts_body,
                                   .reference = chosen_experts_reference};
extern const OpInfo kExpertWeights{.op = ir::Op::expert_weights,
                                   .formula = "weights = factor * scores[experts]",
                                   .inputs = {"scores", "experts", "ranks"},
                                   .outputs = {"weights"},
                                   .formula_of = expert_weights_formula,
                                   .body = expert_weights_body,
                                   .gradient = expert_weights_gradient,
                                   .reference = expert_weights_reference};
extern const OpInfo kExpertWeightsBackward{.op = ir::Op::expert_weights_backward,
                                           .formula = "d_scores[experts] = factor * d_weights",
                                           .inputs = {"d_weights", "scores", "experts", "ranks"},
                                           .outputs = {"d_scores"},
                                           .formula_of = expert_weights_backward_formula,
                                           .body = expert_weights_backward_body};
extern const OpInfo kExpertLoad{.op = ir::Op::expert_load,
                                .formula = "load = how many tokens have chosen the expert",
                                .inputs = {"ranks"},
                                .outputs = {"load"},
                                .body = expert_load_body,
                                .reference = expert_load_reference};
extern const OpInfo kLargestLoad{.op = ir::Op::largest_load,
                                 .formula = "largest = max of load",
                                 .inputs = {"load"},
                                 .outputs = {"largest"},
                                 .body = largest_load_body,
                                 .reference = largest_load_reference};

}  // namespace hydrac::ops
