// Chooses the k tokens of each sequence with the highest scores, in the order of their positions; of equal
// scores the earlier token's counts as higher. Three ops, each a count over a sequence: how many tokens are
// ahead of each; how many chosen ones stand before a chosen one, its place; which token has each place. They
// count integers, so that every target makes the same choice of the same scores, and T^2 comparisons a
// sequence are little beside a block's matmuls. No gradient flows through a choice.
#include <algorithm>
#include <numeric>

#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

TokenChoice choose_tokens(RegionBuilder& b, Use scores, ir::Dim chosen, Use places) {
  const ir::Shape shape = b.shape(scores);
  const auto counts = [&](const std::string& name, ir::Shape of) {
    return b.fresh(name, std::move(of), ir::DType::i32);
  };
  const Use ranks = counts("ranks", shape);
  b.emit_node(ir::Op::score_ranks, {scores}, {ranks});
  if (places.value == ir::kNoValue) places = counts("places", shape);
  b.emit_node(ir::Op::chosen_places, {ranks}, {places}, {{"chosen", chosen.size}});
  const Use tokens = counts("chosen_tokens", {shape[0], std::move(chosen)});
  b.emit_node(ir::Op::chosen_tokens, {places}, {tokens});
  return {tokens, places};
}

// The same of a predictor's choice.
TokenChoice predicted_tokens(RegionBuilder& b, Use logits) {
  const ir::Shape shape = b.shape(logits);
  const Use places = b.fresh("places", shape, ir::DType::i32);
  b.emit_node(ir::Op::predicted_places, {logits}, {places});
  const Use tokens = b.fresh("chosen_tokens", shape, ir::DType::i32);
  b.emit_node(ir::Op::chosen_tokens, {places}, {tokens});
  return {tokens, places};
}

Use chosen_flags(RegionBuilder& b, Use places, const std::string& name) {
  const ir::Shape& shape = b.shape(places);
  return b.emit(ir::Op::chosen_flags, {places}, name, {shape[0], shape[1], {1, "1"}});
}

Use places_before(RegionBuilder& b, Use flags, const std::string& name) {
  const Use places = b.fresh(name, {b.shape(flags)[0], {1, "1"}}, ir::DType::i32);
  b.emit_node(ir::Op::places_before, {flags}, {places});
  return places;
}

namespace {

using ir::ExprType;
using ir::Term;

// A body with a row for each element of the first output; its columns are the tokens of a sequence.
ir::BodyBuilder over_sequences(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  k.columns({graph.value(node.inputs[0]).shape[1]});
  return k;
}

Term count(ir::BodyBuilder& k, const std::string& name, Term condition) {
  return k.named(name, convert(k.sum(select(condition, k.constant(1), k.constant(0))), ExprType::i32));
}

ir::Body score_ranks_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_sequences(graph, node);
  const Term own = k.named("score", k.per_row(0));
  const Term other = k.named("other_score", k.load(0, {k.row(0), k.column(0)}));
  const Term is_before = k.position(k.column(0)) < k.position(k.row(1));
  k.store_row(0, count(k, "ahead", own < other || (is_before && other == own)));
  return k.take();
}

ir::Body chosen_places_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_sequences(graph, node);
  const Term chosen = k.constant(static_cast<double>(node.integer("chosen")), ExprType::i32, "kChosen");
  const Term is_before = k.position(k.column(0)) < k.position(k.row(1));
  const Term other = k.named("other_rank", k.load(0, {k.row(0), k.column(0)}));
  const Term before = count(k, "chosen_before", is_before && other < chosen);
  k.store_row(0, select(k.per_row(0) < chosen, before, k.constant(-1, ExprType::i32)));
  return k.take();
}

ir::Body predicted_places_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_sequences(graph, node);
  const Term is_before = k.position(k.column(0)) < k.position(k.row(1));
  const Term other = k.named("other_logit", k.load(0, {k.row(0), k.column(0)}));
  const Term before = count(k, "chosen_before", is_before && k.constant(0) < other);
  k.store_row(0, select(k.constant(0) < k.per_row(0), before, k.constant(-1, ExprType::i32)));
  return k.take();
}

ir::Body chosen_flags_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  const Term is_chosen = k.constant(0, ExprType::i32) <= k.per_row(0);
  k.store_row_at(0, {k.row(0), k.row(1), ir::Affine{}}, select(is_chosen, k.constant(1), k.constant(0)));
  return k.take();
}

ir::Body places_before_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_sequences(graph, node);
  const int64_t rows = graph.value(node.inputs[0]).shape[1].size;
  const Term is_before =
      k.position(k.column(0)) < k.constant(static_cast<double>(rows - 1), ExprType::i64, "kNewest");
  const Term flag = k.load(0, {k.row(0), k.column(0), ir::Affine{}});
  k.store_row(0, k.named("before", convert(k.sum(select(is_before, flag, k.constant(0))), ExprType::i32)));
  return k.take();
}

// At most one token of a sequence has the row's place, so the sum is that token's number.
ir::Body chosen_tokens_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_sequences(graph, node);
  const Term place = k.named("place", k.load(0, {k.row(0), k.column(0)}));
  const Term is_here = place == convert(k.position(k.row(1)), ExprType::i32);
  const Term token = convert(k.position(k.column(0)), ExprType::f32);
  k.store_row(0, k.named("token", convert(k.sum(select(is_here, token, k.constant(0))), ExprType::i32)));
  return k.take();
}

void score_ranks_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t t = in[0].shape[1];
  for (int64_t b = 0; b < in[0].shape[0]; ++b) {
    const double* scores = &in[0].data[b * t];
    std::vector<int64_t> order(t);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return scores[i] > scores[j]; });
    for (int64_t rank = 0; rank < t; ++rank) out[0].data[b * t + order[rank]] = static_cast<double>(rank);
  }
}

void chosen_places_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                             std::vector<Tensor64>& out) {
  const int64_t t = in[0].shape[1];
  for (int64_t b = 0; b < in[0].shape[0]; ++b) {
    double place = 0;
    for (int64_t i = b * t; i < (b + 1) * t; ++i)
      out[0].data[i] = in[0].data[i] < static_cast<double>(node.integer("chosen")) ? place++ : -1;
  }
}

void predicted_places_reference(const ir::Node&, const std::vector<Tensor64>& in,
                                std::vector<Tensor64>& out) {
  const int64_t t = in[0].shape[1];
  for (int64_t b = 0; b < in[0].shape[0]; ++b) {
    double place = 0;
    for (int64_t i = b * t; i < (b + 1) * t; ++i) out[0].data[i] = in[0].data[i] > 0 ? place++ : -1;
  }
}

void chosen_flags_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = in[0].data[i] >= 0 ? 1 : 0;
}

void places_before_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t rows = in[0].shape[1];
  for (int64_t s = 0; s < in[0].shape[0]; ++s) {
    const auto first = in[0].data.begin() + s * rows;
    out[0].data[s] = std::accumulate(first, first + rows - 1, 0.0);
  }
}

void chosen_tokens_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t t = in[0].shape[1], chosen = out[0].shape[1];
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    if (in[0].data[i] < 0) continue;
    const int64_t b = static_cast<int64_t>(i) / t, place = static_cast<int64_t>(in[0].data[i]);
    out[0].data[b * chosen + place] = static_cast<double>(static_cast<int64_t>(i) % t);
  }
}

}  // namespace

extern const OpInfo kScoreRanks{.op = ir::Op::score_ranks,
                                .formula = "rank = how many tokens of the sequence have a higher score",
                                .inputs = {"scores"},
                                .outputs = {"ranks"},
                                .body = score_ranks_body,
                                .reference = score_ranks_reference};
extern const OpInfo kChosenPlaces{
    .op = ir::Op::chosen_places,
    .formula = "place = how many tokens before it have a rank below kChosen, -1 where it has not itself",
    .inputs = {"ranks"},
    .outputs = {"places"},
    .body = chosen_places_body,
    .reference = chosen_places_reference};
extern const OpInfo kChosenTokens{.op = ir::Op::chosen_tokens,
                                  .formula = "token = the one with this place",
                                  .inputs = {"places"},
                                  .outputs = {"tokens"},
                                  .body = chosen_tokens_body,
                                  .reference = chosen_tokens_reference};
extern const OpInfo kPredictedPlaces{
    .op = ir::Op::predicted_places,
    .formula = "place = how many tokens before it have a logit above 0, -1 where it has not itself",
    .inputs = {"logits"},
    .outputs = {"places"},
    .body = predicted_places_body,
    .reference = predicted_places_reference};
extern const OpInfo kChosenFlags{.op = ir::Op::chosen_flags,
                                 .formula = "flag = 1 where place >= 0, else 0",
                                 .inputs = {"places"},
                                 .outputs = {"flags"},
                                 .body = chosen_flags_body,
                                 .reference = chosen_flags_reference};
extern const OpInfo kPlacesBefore{.op = ir::Op::places_before,
                                  .formula = "place = sum of flags before the newest",
                                  .inputs = {"flags"},
                                  .outputs = {"places"},
                                  .body = places_before_body,
                                  .reference = places_before_reference};

}  // namespace hydrac::ops
