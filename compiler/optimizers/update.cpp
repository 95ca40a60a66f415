#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "optimizers/adaptive_rate.h"
#include "optimizers/found_rate.h"
#include "optimizers/gradient_square.h"
#include "optimizers/optimizer.h"
#include "optimizers/rounding.h"
#include "optimizers/shared_update.h"
#include "optimizers/step_scalars.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;

namespace {

// The metric is the sum of all layers' numbers, which start anew.
ir::Metric take_sums(ops::RegionBuilder& b, const models::LayerSum& sums) {
  const std::string& name = sums.metric.name;
  b.enter("optimizer", "train.loss");
  const Use all{sums.all, {}}, total = b.fresh(name, {}, DType::f32, Role::state);
  const Node node{.inputs = {all}, .outputs = {total, all}};
  BodyBuilder k(b.graph(), node, {});
  k.columns(b.graph().value(sums.all).shape);
  k.store_row(0, k.sum(k.full(0)));
  k.store(1, k.constant(0));
  b.emit_body(node, "sum_of_layers", k.take(),
              fmt::format("{} = sum of all layers', which start anew", name));
  return {sums.metric, total.value};
}

void advance(ops::RegionBuilder& b, Use step) {
  b.enter("optimizer", "train.max_steps");
  Node node{.inputs = {step}, .outputs = {step}};
  BodyBuilder k(b.graph(), node, {});
  k.store_row(0, k.scalar(0) + k.constant(1, ExprType::i32));
  b.emit_body(node, "advance_step", k.take(), "step += 1");
}

// All but Muon, which has no single function.
void emit_update(spec::Optimizer optimizer, Update& update) {
  switch (optimizer) {
    case spec::Optimizer::lion:
      return lion(update);
    case spec::Optimizer::sgd:
      return sgd(update);
    case spec::Optimizer::adamw:
    case spec::Optimizer::muon:
      return adamw(update);
  }
}

std::vector<const models::ParameterGroup*> groups_of(const models::Pack& pack, spec::Optimizer optimizer) {
  std::vector<const models::ParameterGroup*> groups;
  for (const models::ParameterGroup& group : pack.groups) {
    if (group.optimizer == optimizer) groups.push_back(&group);
  }
  return groups;
}

}  // namespace

Betas::Betas(const spec::Spec& spec)
    : beta1(ir::spec_number("beta1", spec.train.optimizer.betas[0], "train.optimizer.betas, the first")),
      beta2(ir::spec_number("beta2", spec.train.optimizer.betas[1], "train.optimizer.betas, the second")) {}

ir::Number momentum_of(const spec::Spec& spec) {
  return ir::spec_number("momentum", spec.train.optimizer.momentum, "train.optimizer.momentum");
}

void build_update(models::Model& model, const models::Pack& pack, const LossScaling& scaling) {
  ir::Graph& graph = model.graph;
  ir::Region first{"update", 0, false, false, {}}, last{"apply_update", 0, false, false, {}};
  std::vector<ir::Region> between;
  ops::RegionBuilder b(graph, first);

  const Use step{models::steps_done(graph), {}};
  Use rank;
  if (pack.sharing_ranks > 1) {
    rank = b.fresh("rank", {}, DType::i32, Role::state);
    graph.state.rank = rank.value;
  }
  const Use square = gradient_square(b, model, pack, rank);
  std::optional<ScaledStep> scaled;
  if (graph.state.loss_scale != ir::kNoValue)
    scaled = adjust_loss_scale(b, {graph.state.loss_scale, {}}, square, scaling);
  const std::optional<AdaptiveRate> adaptive = adaptive_rate(b, model.spec);
  const StepScalars scalars =
      prepare_update(b, model, step, square, scaled, adaptive, found_rate(b, model.spec));
  for (const models::LayerSum& sums : model.interface.layer_sums) graph.metrics.push_back(take_sums(b, sums));
  if (adaptive) follow_loss(b, model.spec, *adaptive, step, scalars.step_loss);
  const bool zero_gradients = spec::micro_batches_of_step(model.spec) > 1;
  std::vector<Use> places;
  if (pack.sharing_ranks > 1 && rounds_stochastically(model.spec))
    for (const models::ParameterGroup& group : pack.groups) places.push_back(own_places(b, group, rank));
  const auto update_by = [&](spec::Optimizer optimizer, ops::RegionBuilder& builder) {
    builder.enter("optimizer", "train.optimizer");
    return Update{builder,
                  model.spec,
                  pack,
                  groups_of(pack, optimizer),
                  scalars.learning_rate,
                  scalars.clip,
                  step,
                  scalars.skipped,
                  scalars.rounding_key,
                  places,
                  scaled.has_value(),
                  zero_gradients};
  };
  std::set<spec::Optimizer> optimizers;
  for (const models::ParameterGroup& group : pack.groups) optimizers.insert(group.optimizer);
  for (const spec::Optimizer optimizer : optimizers) {
    if (optimizer == spec::Optimizer::muon) continue;
    Update update = update_by(optimizer, b);
    emit_update(optimizer, update);
  }
  if (zero_gradients) zero_shared_gradients(b, pack);
  if (!optimizers.contains(spec::Optimizer::muon)) {
    advance(b, step);
  } else {
    Update before = update_by(spec::Optimizer::muon, b);
    const std::vector<Orthogonalized> updates = orthogonalize(before, between, last);
    ops::RegionBuilder end(graph, last);
    Update behind = update_by(spec::Optimizer::muon, end);
    muon(behind, updates);
    advance(end, step);
  }
  ir::Function& function = graph.functions.emplace_back();
  function.name = "update";
  function.regions = take_own_parts(graph, pack);
  function.regions.push_back(std::move(first));
  for (ir::Region& region : between) function.regions.push_back(std::move(region));
  if (!last.nodes.empty()) function.regions.push_back(std::move(last));
  for (ir::Region& region : gather_parts(graph, pack)) function.regions.push_back(std::move(region));
  graph.results.step_loss = scalars.step_loss.value;
  graph.results.grad_norm = scalars.grad_norm.value;
  graph.results.learning_rate = scalars.learning_rate.value;
  if (scaled) {
    graph.results.loss_scale = scaled->scale.value;
    graph.results.skipped = scaled->skipped.value;
  }
}

}  // namespace hydrac::optimizers
