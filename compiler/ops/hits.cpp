// Counts the rows of logits whose largest number is at the target, from which accuracy is computed; of equal
// numbers the first one counts as the largest. Rows with the target -100 are not counted.
#include <algorithm>

#include "ops/builder.h"
#include "ops/logit.h"
#include "ops/shapes.h"

namespace hydrac::ops {

void hits(RegionBuilder& b, Use logits, Use targets, int64_t classes, Use count) {
  b.emit_node(ir::Op::hits, {logits, targets}, {count}, {{"classes", classes}, {"accumulate", false}});
}

namespace {

using ir::ExprType;
using ir::Term;

// A row is a hit where no class is ahead of the target's: none larger, nor an equal one before it.
ir::Body hits_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[1]).shape);
  k.columns(last(graph.value(node.inputs[0]).shape));
  const Term logit = k.named("logit", k.full(0)), target = k.named("target", k.per_row(1));
  const Term zero = k.constant(0), one = k.constant(1);
  std::vector<ir::Affine> rows;
  for (size_t i = 0; i < graph.value(node.inputs[1]).shape.size(); ++i)
    rows.push_back(k.row(static_cast<int>(i)));
  const Term at_target = k.gather(0, max(target, k.constant(0, ExprType::i32)), rows, {});
  const Term column = k.position(k.column(0));
  const Term is_before = column < convert(target, ExprType::i64);
  const Term is_ahead = at_target < logit || (is_before && at_target == logit);
  const Term is_class =
      column < k.constant(number_of_classes(node.integer("classes")), ExprType::i64, "kClasses");
  const Term ahead = k.named("ahead", k.sum(select(is_ahead && is_class, one, zero)));
  const Term is_hit = k.named("is_hit", ahead == zero && !(target < k.constant(0, ExprType::i32)));
  k.row_sum(0, select(is_hit, one, zero), node.flag("accumulate"));
  return k.take();
}

void hits_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t columns = in[0].shape.back();
  out[0].data[0] = 0;
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    const auto row = in[0].data.begin() + r * columns;
    const auto target = static_cast<int64_t>(in[1].data[static_cast<size_t>(r)]);
    if (target != kIgnoredTarget && std::max_element(row, row + node.integer("classes")) - row == target)
      out[0].data[0] += 1;
  }
}

}  // namespace

extern const OpInfo kHits{.op = ir::Op::hits,
                          .formula = "hits += rows whose largest logit is the target's",
                          .inputs = {"logits", "targets"},
                          .outputs = {"hits"},
                          .body = hits_body,
                          .reference = hits_reference};

}  // namespace hydrac::ops
