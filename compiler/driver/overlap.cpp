#include "driver/overlap.h"

#include <algorithm>

#include "driver/floor.h"
#include "program/cost.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

// Flop of a micro-batch's matmuls and attention.
double flop_of_matmuls(const Compiled& c) {
  double flop = 0;
  for (const ir::Region& region : c.graph.function("micro_step").regions)
    for (const ir::Node& node : region.nodes)
      if (program::multiplies_matrices(node))
        flop += std::max(region.layers, 1) * program::cost_of(c.graph, node).flop;
  return flop;
}

int64_t bytes_of_gradients(const Compiled& c) {
  int64_t bytes = 0;
  for (const ir::Value& value : c.graph.values)
    if (value.role == ir::Role::gradient && !value.view)
      bytes += element_count(value.shape) * value.slots * size_of(value.dtype);
  return bytes;
}

}  // namespace

bool overlaps_sums(const Compiled& c, passes::Log& log) {
  constexpr double kLeastShare = 0.05;
  const targets::Target& target = *targets::find(c.spec.target);
  const double flops = 0.6 * peaks_of(target, c.spec.optimizations.precision).flops;
  const auto ranks = static_cast<double>(c.spec.parallel.data);
  const double bytes = 2 * (ranks - 1) / ranks * static_cast<double>(bytes_of_gradients(c));
  const double sums = seconds_over_links(target, bytes);
  if (flops == 0 || sums == 0 || sums >= kLeastShare * flop_of_matmuls(c) / flops) return true;
  log.push_back({"ranks",
                 "gradients are summed over ranks before the update: beside the backward pass its matmuls "
                 "would lose more than that takes"});
  return false;
}

}  // namespace hydrac::driver
