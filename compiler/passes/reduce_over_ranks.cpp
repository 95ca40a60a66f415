#include <iterator>

#include "ir/body_builder.h"
#include "models/sharing.h"
#include "ops/builder.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

// Ranks before this one computed the micro-batches that come first in a step, those behind it the last ones.
void skip_randomness(ops::RegionBuilder& b, ir::Use rng_step, int64_t others) {
  b.enter("state", "train.seed");
  const ir::Node node{.inputs = {rng_step}, .outputs = {rng_step}};
  ir::BodyBuilder k(b.graph(), node, {});
  k.store_row(0, k.scalar(0) + k.constant(static_cast<double>(others), ir::ExprType::u32, "kOfOtherRanks"));
  b.emit_body(node, "skip_randomness", k.take(), "rng_step += the micro-batches of the other ranks");
}

}  // namespace

void reduce_over_ranks(ir::Graph& graph, const models::Pack& pack, const models::Interface& interface,
                       const Ranks& ranks) {
  ir::Region region{"reduce", 0, false, false, {}};
  ops::RegionBuilder b(graph, region);
  b.enter("optimizer", "parallel.data");
  std::vector<ir::Use> sums;
  if (pack.sharing_ranks == 1)
    for (const models::ParameterGroup& group : pack.groups) sums.push_back({group.gradients, {}});
  sums.push_back({graph.results.loss, {}});
  for (const models::LayerSum& of_layers : interface.layer_sums) sums.push_back({of_layers.all, {}});
  b.emit_node(ir::Op::all_reduce, sums, sums, {{"ranks", ranks.count}});
  skip_randomness(b, {graph.state.rng_step, {}}, (ranks.count - 1) * ranks.micro_batches);
  std::vector<ir::Region> added;
  if (pack.sharing_ranks > 1 && !pack.shards_gradients)
    added = models::regions_of_stretches(pack, "reduce_gradients", ir::Op::reduce_scatter, "parallel.zero",
                                         [](const models::ParameterGroup&, const models::Stretch& stretch) {
                                           return models::Moved{stretch.gradients, stretch.own_gradients};
                                         });
  added.push_back(std::move(region));
  std::vector<ir::Region>& regions = graph.function("update").regions;
  regions.insert(regions.begin(), std::make_move_iterator(added.begin()),
                 std::make_move_iterator(added.end()));
}

void sum_partial_gradients(ir::Graph& graph, int64_t ranks) {
  std::vector<ir::Use> gradients;
  for (const ir::Value& value : graph.values) {
    if (!value.trains() || !value.parameter->partial_gradient) continue;
    const ir::ValueId gradient = models::gradient_of(graph, value);
    for (int slot = 0; slot < value.slots; ++slot) gradients.push_back({gradient, {false, slot}});
  }
  if (gradients.empty()) return;
  ir::Region region{"sum_partial", 0, false, false, {}};
  ops::RegionBuilder b(graph, region);
  b.enter("optimizer", "parallel.tensor");
  b.emit_node(ir::Op::all_reduce, gradients, gradients, {{"ranks", ranks}, {"tensor", true}});
  std::vector<ir::Region>& regions = graph.function("update").regions;
  regions.insert(regions.begin(), std::move(region));
}

}  // namespace hydrac::passes
