#include "driver/prediction.h"

#include <algorithm>
#include <set>

#include "program/cost.h"
#include "targets/target.h"

namespace hydrac::driver {

Rates rates_of(const targets::Target& target, spec::Precision precision) {
  const Peaks peaks = peaks_of(target, precision);
  Rates rates{.host_bytes_per_second = 0.7e9 * target.host_gbs(), .seconds_a_call = 3e-6};
  rates.are_known = peaks.flops > 0 && peaks.bytes_per_second > 0;
  if (rates.are_known)
    rates.reached = {0.6 * peaks.flops, 0.6 * peaks.flops_of_8_bits, 0.7 * peaks.bytes_per_second};
  else if (target.is_cpu())
    rates.reached = {1e11, 0, 1e10};  // a few cores of AVX2, a channel of memory
  else
    rates.reached = {9e13, 18e13, 6e11};  // a GPU that is given by its architecture
  return rates;
}

int64_t bytes_on_host(const Compiled& compiled, ir::Role role) {
  const plan::Plan& plan = compiled.plan;
  int64_t bytes = 0;
  for (const auto& [id, placement] : plan.placements) {
    if (compiled.graph.value(id).role != role) continue;
    const int64_t first = std::max(placement.offset, plan.device_bytes());
    bytes += std::max<int64_t>(placement.offset + placement.bytes() - first, 0);
  }
  return bytes;
}

int64_t saved_bytes(const Compiled& compiled) {
  const ir::Graph& graph = compiled.graph;
  std::set<ir::ValueId> made;
  int64_t bytes = 0;
  for (const ir::Region& region : graph.function("micro_step").regions) {
    if (region.layers == 0) continue;
    std::set<ir::ValueId> read;
    for (const ir::Node& node : region.nodes) {
      for (const ir::Use use : region.backward ? node.inputs : node.outputs)
        if (use.value != ir::kNoValue) (region.backward ? read : made).insert(storage_of(graph, use.value));
    }
    for (const ir::ValueId id : read) {
      const ir::Value& value = graph.value(id);
      if (value.role == ir::Role::activation && made.contains(id))
        bytes += region.layers * element_count(value.shape) * size_of(value.dtype);
    }
  }
  return bytes;
}

double predicted_seconds(const Compiled& compiled) {
  const Rates rates = rates_of(*targets::find(compiled.spec.target), compiled.spec.optimizations.precision);
  const StepWork work = step_work(compiled, rates.reached);
  double seconds = work.floor_seconds + rates.seconds_a_call * static_cast<double>(work.calls);
  if (work.copied_bytes > 0) seconds = std::max(seconds, work.copied_bytes / rates.host_bytes_per_second);
  const int64_t moved =
      bytes_on_host(compiled, ir::Role::optimizer_state) + bytes_on_host(compiled, ir::Role::working_copy);
  if (moved > 0) seconds += seconds_over_bus(compiled, moved);
  return seconds;
}

double seconds_over_bus(const Compiled& compiled, int64_t bytes) {
  const Rates rates = rates_of(*targets::find(compiled.spec.target), compiled.spec.optimizations.precision);
  return static_cast<double>(bytes) / rates.host_bytes_per_second;
}

double attention_share(const Compiled& compiled) {
  const Rates rates = rates_of(*targets::find(compiled.spec.target), compiled.spec.optimizations.precision);
  double seconds = 0;
  for (const ir::Region& region : compiled.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op != ir::Op::attention && node.op != ir::Op::attention_backward) continue;
      const ops::Cost cost = program::cost_of(compiled.graph, node);
      seconds += std::max(region.layers, 1) *
                 std::max(cost.flop / rates.reached.flops, cost.bytes / rates.reached.bytes_per_second);
    }
  }
  const auto micro_batches = static_cast<double>(spec::micro_batches_of_step(compiled.spec));
  return micro_batches * seconds / predicted_seconds(compiled);
}

}  // namespace hydrac::driver
