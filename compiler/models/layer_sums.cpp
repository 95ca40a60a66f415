// Numbers that layers add up over the micro-batches of a step, and the losses that blocks add.
#include <algorithm>

#include "models/blocks.h"

namespace hydrac::models {

namespace {

LayerSum declare_sum(ir::Graph& graph, ir::Dim layers, const std::string& name,
                     const runtime::MetricText& metric) {
  ir::Value all, of_layer;
  all.name = name;
  all.shape = {layers};
  all.role = of_layer.role = ir::Role::state;
  LayerSum sum{metric, graph.add(std::move(all))};
  of_layer.name = name + ".of_layer";
  of_layer.slots = static_cast<int>(layers.size);
  of_layer.view = ir::View{.base = sum.all, .slot_stride = 1};
  sum.of_layer = graph.add(std::move(of_layer));
  return sum;
}

const LayerSum& sum_of(const Build& build, int64_t layers, const std::string& name,
                       const runtime::MetricText& metric) {
  std::vector<LayerSum>& sums = build.model.interface.layer_sums;
  auto found = std::ranges::find(sums, metric.name, [](const LayerSum& sum) { return sum.metric.name; });
  if (found == sums.end())
    found = sums.insert(sums.end(), declare_sum(build.model.graph, {layers, ""}, name, metric));
  return *found;
}

// f32 [], of the layer that the region is at.
Use sum_of_layer(const Build& build, const std::string& name, const runtime::MetricText& metric) {
  return build.layer(sum_of(build, build.model.spec.model.num_hidden_layers, name, metric).of_layer);
}

// A micro-batch's share of the step, on all ranks.
double micro_batch_share(const spec::Spec& spec) {
  return 1 / static_cast<double>(spec::micro_batches_of_step(spec) * spec.parallel.data);
}

}  // namespace

ir::ValueId steps_done(ir::Graph& graph) {
  if (graph.state.step == ir::kNoValue) {
    ir::Value value;
    value.name = "step";
    value.dtype = ir::DType::i32;
    value.role = ir::Role::state;
    graph.state.step = graph.add(std::move(value));
  }
  return graph.state.step;
}

void auxiliary_loss(ops::RegionBuilder& b, const Build& build, Use rows, double weight,
                    int64_t warmup_steps) {
  if (!build.trains()) return;
  const ops::AuxiliaryWeight share{weight * micro_batch_share(build.model.spec), warmup_steps,
                                   warmup_steps > 0 ? build.fixed(steps_done(build.model.graph)) : Use{}};
  const Use loss = sum_of_layer(build, "aux_losses", kAuxiliaryLoss);
  ops::auxiliary_loss(b, rows, share, loss, build.fixed(build.model.graph.state.loss_scale));
}

void layer_statistic(ops::RegionBuilder& b, const Build& build, Use rows, double factor,
                     const std::string& sums, const runtime::MetricText& metric) {
  if (!build.trains()) return;
  ops::statistic(b, rows, factor * micro_batch_share(build.model.spec), sum_of_layer(build, sums, metric),
                 true);
}

void loss_statistic(ops::RegionBuilder& b, const Build& build, Use rows, const std::string& sums,
                    const runtime::MetricText& metric) {
  if (!build.trains()) return;
  ops::statistic(b, rows, 1, build.fixed(sum_of(build, 1, sums, metric).of_layer), true,
                 build.fixed(build.model.graph.inputs.inv_count));
}

}  // namespace hydrac::models
