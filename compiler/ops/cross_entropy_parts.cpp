// Cross-entropy where each rank has the logits of a part of the classes (see cross_entropy.cpp):
//   cross_entropy_part      of a rank's part: lse_r = logsumexp(x), t_r = what it has of
//                           (1-e) * x[target] + e * mean(x)
//   all_gather              gives every rank those of all
//   cross_entropy_of_parts  lse = logsumexp of all lse_r, loss = lse - sum of all t_r
// Targets count from a rank's first class on; another rank's is negative (kTargetOfAnother), an ignored one
// less (kIgnoredTarget).
#include <algorithm>
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/logit.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use cross_entropy_of_ranks(RegionBuilder& b, Use logits, Use targets, const PartOfClasses& part,
                           double softcap, double label_smoothing, const std::string& name) {
  const ir::Shape shape = b.shape(targets);
  ir::Attributes attributes = {{"label_smoothing", label_smoothing}, {"classes", part.all}};
  if (softcap > 0) attributes["softcap"] = softcap;
  const Use lse = b.exact(b.fresh(name + ".lse_part", shape));
  const Use target = b.exact(b.fresh(name + ".target_part", shape));
  std::vector<Use> inputs = {logits, targets};
  if (part.own.value != ir::kNoValue) inputs.push_back(part.own);
  b.emit_node(ir::Op::cross_entropy_part, std::move(inputs), {lse, target}, std::move(attributes));
  const std::vector<Use> parts = gather_over_ranks(b, {lse, target}, part.ranks);
  const Use rows = b.emit(ir::Op::cross_entropy_of_parts, {parts[0], parts[1], targets}, name, shape);
  b.region().nodes.back().outputs.push_back(b.exact(b.fresh(name + ".lse", shape)));
  return b.exact(rows);
}

namespace {

using ir::ExprType;
using ir::Term;

// `x` in the columns of the rank's classes, `padding` behind them.
Term only_classes(ir::BodyBuilder& k, const ir::Node& node, int classes, Term x, double padding) {
  if (std::ssize(node.inputs) <= classes) return x;
  const Term own = k.named("own_classes", k.scalar(classes));
  const Term is_class = k.named("is_class", k.position(k.column(0)) < convert(own, ExprType::i64));
  return select(is_class, x, k.constant(padding));
}

ir::Body part_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term logits = Logit(k, node, k.named("logit", k.full(0))).value,
             target = k.named("target", k.per_row(1));
  const Term zero = k.constant(0, ExprType::i32);
  const double e = node.number("label_smoothing");
  k.store_row(0, k.logsumexp(k.named("class_logit", only_classes(k, node, 2, logits, kNoLogit))));
  std::vector<ir::Affine> rows;
  for (size_t i = 0; i < graph.value(node.inputs[1]).shape.size(); ++i)
    rows.push_back(k.row(static_cast<int>(i)));
  const Term at_target =
      Logit(k, node, k.named("target_logit", k.gather(0, max(target, zero), rows, {}))).value;
  Term part =
      select(k.named("is_of_another", target < zero), k.constant(0), e > 0 ? (1 - e) * at_target : at_target);
  if (e > 0)
    part = part +
           k.sum(only_classes(k, node, 2, logits, 0)) * (e / static_cast<double>(node.integer("classes")));
  k.store_row(1, part);
  return k.take();
}

// Inputs: logits, targets, lse_part, d_lse_part, d_target_part, own_classes.
ir::Body part_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term target = k.named("target", k.per_row(1));
  const double e = node.number("label_smoothing");
  const Logit logit(k, node, k.named("logit", k.full(0)));
  const Term d_target = k.named("d_target", k.per_row(4));
  const Term hit = k.position(k.column(0)) == convert(target, ExprType::i64);
  Term d_value = k.named("share", exp(logit.value - k.per_row(2))) * k.per_row(3) +
                 select(hit, (1 - e) * d_target, k.constant(0));
  if (e > 0) d_value = d_value + d_target * (e / static_cast<double>(node.integer("classes")));
  k.store(0, only_classes(k, node, 5, logit.times_derivative(d_value), 0));
  return k.take();
}

void part_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> inputs = {node.inputs[0], node.inputs[1], node.outputs[0], *g.of(node.outputs[0]),
                             *g.of(node.outputs[1])};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  g.contribute_op(node.inputs[0], ir::Op::cross_entropy_part_backward, inputs, node.attributes);
}

void part_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t columns = in[0].shape.back();
  const int64_t own = in.size() > 2 ? static_cast<int64_t>(in[2].data[0]) : columns;
  const double e = node.number("label_smoothing"), cap = softcap_of(node);
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    std::vector<double> x(in[0].data.begin() + r * columns, in[0].data.begin() + r * columns + own);
    double sum = 0, all = 0;
    for (double& logit : x) {
      if (cap > 0) logit = cap * std::tanh(logit / cap);
      sum += std::exp(logit);
      all += logit;
    }
    const auto target = static_cast<int64_t>(in[1].data[r]);
    out[0].data[r] = std::log(sum);
    out[1].data[r] =
        (target < 0 ? 0 : (1 - e) * x[target]) + e / static_cast<double>(node.integer("classes")) * all;
  }
}

// Those of each rank at the row of a body whose rows are those of the targets, from `first` on.
std::vector<Term> of_ranks(ir::BodyBuilder& k, const ir::Graph& graph, const ir::Node& node, int input,
                           int first = 0) {
  const ir::Shape& shape = graph.value(node.inputs[input]).shape;
  std::vector<Term> terms;
  for (int64_t rank = 0; rank < shape[0].size; ++rank) {
    std::vector<ir::Affine> index = {{rank, {}}};
    for (size_t i = 1; i < shape.size(); ++i) index.push_back(k.row(static_cast<int>(i) - 1 + first));
    terms.push_back(k.load(input, index));
  }
  return terms;
}

Term is_ignored(ir::BodyBuilder& k, Term target) {
  return k.named("is_ignored",
                 target < k.constant(static_cast<double>(kTargetOfAnother), ExprType::i32, "kOfAnother"));
}

ir::Body of_parts_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[2]).shape);
  const std::vector<Term> lses = of_ranks(k, graph, node, 0), targets = of_ranks(k, graph, node, 1);
  Term largest = lses[0];
  for (size_t r = 1; r < lses.size(); ++r) largest = max(largest, lses[r]);
  largest = k.named("largest", largest);
  Term sum = exp(lses[0] - largest), target = targets[0];
  for (size_t r = 1; r < lses.size(); ++r) {
    sum = sum + exp(lses[r] - largest);
    target = target + targets[r];
  }
  const Term lse = k.named("row_lse", largest + log(sum));
  k.store_row(0, select(is_ignored(k, k.named("target", k.per_row(2))), k.constant(0), lse - target));
  k.store_row(1, lse);
  return k.take();
}

// Inputs: lse_parts, targets, lse, d_losses. Outputs [ranks, ..]: d_lse_parts, d_target_parts.
ir::Body of_parts_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& rows = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, rows);
  const auto at = [&](int input) {
    std::vector<ir::Affine> index;
    for (size_t i = 1; i < rows.size(); ++i) index.push_back(k.row(static_cast<int>(i)));
    return k.load(input, index);
  };
  const Term d_row = k.named("d_loss", select(is_ignored(k, k.named("target", at(1))), k.constant(0), at(3)));
  k.store_row(0, k.named("rank_share", exp(k.per_row(0) - at(2))) * d_row);
  k.store_row(1, -d_row);
  return k.take();
}

void of_parts_gradient(Gradient& g, const ir::Node& node) {
  const ir::Shape shape = g.shape(node.inputs[0]);
  const Use d_lses = g.exact(g.fresh(g.name_of(node.inputs[0]), shape)),
            d_targets = g.exact(g.fresh(g.name_of(node.inputs[1]), shape));
  g.emit_node(ir::Op::cross_entropy_of_parts_backward,
              {node.inputs[0], node.inputs[2], node.outputs[1], *g.of(node.outputs[0])}, {d_lses, d_targets});
  g.contribute(node.inputs[0], d_lses);
  g.contribute(node.inputs[1], d_targets);
}

void of_parts_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t rows = in[2].data.size();
  for (size_t i = 0; i < rows; ++i) {
    double sum = 0, target = 0;
    for (size_t r = 0; r * rows < in[0].data.size(); ++r) {
      sum += std::exp(in[0].data[r * rows + i]);
      target += in[1].data[r * rows + i];
    }
    out[1].data[i] = std::log(sum);
    out[0].data[i] = in[2].data[i] < static_cast<double>(kTargetOfAnother) ? 0 : out[1].data[i] - target;
  }
}

}  // namespace

extern const OpInfo kCrossEntropyPart{
    .op = ir::Op::cross_entropy_part,
    .formula = "lse_part = logsumexp(logits), target_part = what the rank has of logits[target]",
    .inputs = {"logits", "targets", "own_classes"},
    .outputs = {"lse_part", "target_part"},
    .body = part_body,
    .gradient = part_gradient,
    .reference = part_reference};
extern const OpInfo kCrossEntropyPartBackward{
    .op = ir::Op::cross_entropy_part_backward,
    .formula = "d_logits = exp(logits - lse_part) d_lse_part + [v = target] d_target_part",
    .inputs = {"logits", "targets", "lse_part", "d_lse_part", "d_target_part", "own_classes"},
    .outputs = {"d_logits"},
    .body = part_backward_body};
extern const OpInfo kCrossEntropyOfParts{
    .op = ir::Op::cross_entropy_of_parts,
    .formula = "lse = logsumexp of the ranks' lse_parts, losses = lse - sum of their target_parts",
    .inputs = {"lse_parts", "target_parts", "targets"},
    .outputs = {"losses", "lse"},
    .body = of_parts_body,
    .gradient = of_parts_gradient,
    .reference = of_parts_reference};
extern const OpInfo kCrossEntropyOfPartsBackward{
    .op = ir::Op::cross_entropy_of_parts_backward,
    .formula = "d_lse_parts = exp(lse_parts - lse) d_losses, d_target_parts = -d_losses",
    .inputs = {"lse_parts", "targets", "lse", "d_losses"},
    .outputs = {"d_lse_parts", "d_target_parts"},
    .body = of_parts_backward_body};

}  // namespace hydrac::ops
