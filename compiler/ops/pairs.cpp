// Sums over the two texts of a pair, whose tokens stand anywhere in one row: token t belongs to text
// segments[t], chosen texts are even and the rejected one of a pair is the next. A text's log-probability is
// minus the sum of its losses -log p.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

PairSums pair_sums(RegionBuilder& b, Use losses, Use segments, ir::Dim pairs, const std::string& name,
                   Use chosen, Use rejected) {
  const ir::Shape shape = {b.shape(losses)[0], std::move(pairs)};
  const auto fresh = [&](const char* what) { return b.exact(b.fresh(name + what, shape)); };
  PairSums sums{chosen, rejected, fresh(".chosen_tokens"), fresh(".rejected_tokens")};
  if (chosen.value == ir::kNoValue) sums.chosen = fresh(".chosen");
  if (rejected.value == ir::kNoValue) sums.rejected = fresh(".rejected");
  b.emit_node(ir::Op::pair_sums, {losses, segments},
              {sums.chosen, sums.rejected, sums.chosen_tokens, sums.rejected_tokens});
  return sums;
}

namespace {

using ir::ExprType;
using ir::Term;

ir::Body pair_sums_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  k.columns(last(graph.value(node.inputs[0]).shape));
  const std::vector<ir::Affine> token = {k.row(0), k.column(0)};
  const Term loss = k.load(0, token), segment = convert(k.load(1, token), ExprType::i64);
  const Term zero = k.constant(0), one = k.constant(1);
  for (int text = 0; text < 2; ++text) {
    const ir::Affine number = k.row(1) * 2 + ir::Affine{text, {}};
    const Term is_of_text = k.named(text == 0 ? "is_chosen" : "is_rejected", segment == k.position(number));
    k.store_row(text, k.sum(select(is_of_text, -loss, zero)));
    k.store_row(2 + text, k.sum(select(is_of_text, one, zero)));
  }
  return k.take();
}

// Inputs: d_chosen, d_rejected, segments.
ir::Body pair_sums_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  const Term zero = k.constant(0, ExprType::i32), segment = k.named("segment", k.per_row(2));
  const Term pair = k.named("pair", max(segment, zero) / k.constant(2, ExprType::i32));
  const Term is_chosen = segment % k.constant(2, ExprType::i32) == zero;
  const Term d_text = select(is_chosen, k.gather(0, pair, {k.row(0)}, {}), k.gather(1, pair, {k.row(0)}, {}));
  k.store_row(0, select(segment < zero, k.constant(0), -d_text));
  return k.take();
}

void pair_sums_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::pair_sums_backward,
                  {*g.of(node.outputs[0]), *g.of(node.outputs[1]), node.inputs[1]});
}

void pair_sums_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t tokens = in[0].shape[1], pairs = out[0].shape[1];
  for (Tensor64& sums : out) std::fill(sums.data.begin(), sums.data.end(), 0.0);
  for (int64_t i = 0; i < static_cast<int64_t>(in[0].data.size()); ++i) {
    const auto segment = static_cast<int64_t>(in[1].data[i]);
    if (segment < 0) continue;
    const int64_t at = i / tokens * pairs + segment / 2;
    out[segment % 2].data[at] -= in[0].data[i];
    out[2 + segment % 2].data[at] += 1;
  }
}

}  // namespace

extern const OpInfo kPairSums{.op = ir::Op::pair_sums,
                              .formula =
                                  "chosen[p] = -sum of losses where segment = 2p, and how many these are; "
                                  "rejected[p] where segment = 2p + 1",
                              .inputs = {"losses", "segments"},
                              .outputs = {"chosen", "rejected", "chosen_tokens", "rejected_tokens"},
                              .body = pair_sums_body,
                              .gradient = pair_sums_gradient,
                              .reference = pair_sums_reference};
extern const OpInfo kPairSumsBackward{.op = ir::Op::pair_sums_backward,
                                      .formula = "d_losses = -d_chosen or -d_rejected of the token's pair",
                                      .inputs = {"d_chosen", "d_rejected", "segments"},
                                      .outputs = {"d_losses"},
                                      .body = pair_sums_backward_body};

}  // namespace hydrac::ops
