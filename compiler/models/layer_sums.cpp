// Numbers that layers add up over the micro-batches of a step, and the losses that blocks add.
#include "models/blocks.h"

namespace hydrac::models {

Use sum_of_layer(const Build& build, LayerSums& sums, const std::string& name) {
  ir::Graph& graph = build.model.graph;
  if (sums.all == ir::kNoValue) {
    const ir::Dim layers{build.model.spec.model.num_hidden_layers, ""};
    ir::Value all, of_layer;
    all.name = name;
    all.shape = {layers};
    all.role = of_layer.role = ir::Role::state;
    sums.all = graph.add(std::move(all));
    of_layer.name = name + ".of_layer";
    of_layer.slots = static_cast<int>(layers.size);
    of_layer.view = ir::View{.base = sums.all, .slot_stride = 1};
    sums.of_layer = graph.add(std::move(of_layer));
  }
  return build.layer(sums.of_layer);
}

namespace {

Use steps_done(const Build& build) {
  ir::ValueId& step = build.model.interface.step;
  if (step == ir::kNoValue) {
    ir::Value value;
    value.name = "step";
    value.dtype = ir::DType::i32;
    value.role = ir::Role::state;
    step = build.model.graph.add(std::move(value));
  }
  return build.fixed(step);
}

// Of what a step has, the part of each of its micro-batches, on all ranks.
double micro_batch_share(const spec::Spec& spec) {
  return 1 / static_cast<double>(spec::micro_batches_of_step(spec) * spec.parallel.data);
}

}  // namespace

void auxiliary_loss(ops::RegionBuilder& b, const Build& build, Use rows, double weight,
                    int64_t warmup_steps) {
  if (!build.trains()) return;
  const ops::AuxiliaryWeight share{weight * micro_batch_share(build.model.spec), warmup_steps,
                                   warmup_steps > 0 ? steps_done(build) : Use{}};
  const Use loss = sum_of_layer(build, build.model.interface.aux_losses, "aux_losses");
  ops::auxiliary_loss(b, rows, share, loss, build.fixed(build.model.interface.loss_scale));
}

void layer_statistic(ops::RegionBuilder& b, const Build& build, Use rows, double factor, LayerSums& sums,
                     const std::string& name) {
  if (!build.trains()) return;
  ops::statistic(b, rows, factor * micro_batch_share(build.model.spec), sum_of_layer(build, sums, name),
                 true);
}

}  // namespace hydrac::models
