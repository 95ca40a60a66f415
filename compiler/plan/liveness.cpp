#include "plan/liveness.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace hydrac::plan {

namespace {

void touch(const ir::Graph& graph, Liveness& liveness, ir::Use use, int layer, const std::string& function) {
  if (use.value == ir::kNoValue) return;
  const ir::ValueId storage = storage_of(graph, use.value);
  if (graph.value(storage).role != ir::Role::activation) return;
  const int slot = storage_slot(graph, use).at(layer);
  Life& life = liveness.lives[storage];
  if (!life.function.empty() && life.function != function) {
    throw std::logic_error(
        fmt::format("{} is used in {} and {}", graph.value(storage).name, life.function, function));
  }
  life.function = function;
  auto [found, is_new] = life.slots.try_emplace(slot, Interval{liveness.steps, liveness.steps + 1});
  if (!is_new) found->second.last = liveness.steps + 1;
}

// Half of the longest layer, in steps.
int half_a_layer(const ir::Function& function) {
  size_t nodes = 0;
  for (const ir::Region& region : function.regions) {
    if (region.layers > 1) nodes = std::max(nodes, region.nodes.size());
  }
  return static_cast<int>(nodes / 2);
}

int steps_of_layer(const ir::Function& function) {
  size_t nodes = 0;
  for (const ir::Region& region : function.regions)
    if (region.layers > 1) nodes = std::max(nodes, region.nodes.size());
  return static_cast<int>(nodes);
}

// The steps of a layer, for storages that are sent to the host or to other ranks while the next layer
// computes into another slot.
std::map<ir::ValueId, int> layers_of_sent(const ir::Graph& graph, const ir::Function& function) {
  std::map<ir::ValueId, int> steps;
  for (const ir::Region& region : function.regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op == ir::Op::transfer && graph.value(node.outputs[0]).on_host)
        steps[storage_of(graph, node.inputs[0].value)] = static_cast<int>(region.nodes.size());
      if (node.op != ir::Op::reduce_scatter || !node.optional_flag("beside")) continue;
      for (const auto* uses : {&node.inputs, &node.outputs})
        for (const ir::Use use : *uses) steps[storage_of(graph, use.value)] = steps_of_layer(function);
    }
  }
  return steps;
}

// The steps by which storages live longer because a layer's weights are fetched into them while the previous
// layer computes. The previous layer's weights have another slot. Fetches that run an iteration ahead overlap
// anyway.
std::map<ir::ValueId, int> layers_of_fetched(const ir::Function& function, const ir::Graph& graph) {
  std::map<ir::ValueId, int> steps;
  for (const ir::Region& region : function.regions)
    for (const ir::Node& node : region.nodes)
      if (node.optional_flag("weights_of_layer") && node.optional_flag("beside"))
        steps[storage_of(graph, node.outputs[0].value)] =
            node.optional_flag("ahead") ? 0 : static_cast<int>(region.nodes.size());
  return steps;
}

}  // namespace

Liveness liveness_of(const ir::Graph& graph, const std::set<ir::ValueId>& lingers) {
  Liveness liveness;
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      const int iterations = std::max(region.layers, 1);
      for (int i = 0; i < iterations; ++i) {
        const int layer = region.reverse ? iterations - 1 - i : i;
        for (const ir::Node& node : region.nodes) {
          for (ir::Use use : node.inputs) touch(graph, liveness, use, layer, function.name);
          for (ir::Use use : node.outputs) touch(graph, liveness, use, layer, function.name);
          ++liveness.steps;
        }
      }
    }
    const std::map<ir::ValueId, int> sent = layers_of_sent(graph, function),
                                     fetched = layers_of_fetched(function, graph);
    for (auto& [storage, life] : liveness.lives) {
      if (life.function != function.name) continue;
      int longer = lingers.contains(storage) ? half_a_layer(function) : 0;
      if (const auto found = sent.find(storage); found != sent.end())
        longer = std::max(longer, found->second);
      if (const auto found = fetched.find(storage); found != fetched.end()) longer = found->second;
      for (auto& [slot, interval] : life.slots)
        interval.last = std::min(interval.last + longer, liveness.steps);
    }
  }
  return liveness;
}

int slots_needed(const Life& life) {
  struct Used {
    int slot;
    Interval when;
  };
  std::vector<Used> in_time;
  for (const auto& [slot, interval] : life.slots) in_time.push_back({slot, interval});
  std::ranges::stable_sort(in_time, {}, [](const Used& used) { return used.when.first; });
  // In order of their starts, so that a slot conflicts with another one of its physical slot if it starts
  // before all earlier ones have ended.
  auto conflict_free = [&](int count) {
    std::vector<int> ends(static_cast<size_t>(count), 0);
    for (const auto& [slot, when] : in_time) {
      int& end = ends[static_cast<size_t>(slot % count)];
      if (when.first < end) return false;
      end = when.last;
    }
    return true;
  };
  const int all = life.slots.rbegin()->first + 1;
  for (int count = 1; count < all; ++count) {
    if (conflict_free(count)) return count;
  }
  return all;
}

std::vector<Interval> merged_intervals(const Life& life) {
  std::vector<Interval> intervals;
  for (const auto& [slot, interval] : life.slots) intervals.push_back(interval);
  std::ranges::sort(intervals, {}, &Interval::first);
  std::vector<Interval> merged;
  for (const Interval& interval : intervals) {
    if (!merged.empty() && interval.first <= merged.back().last) {
      merged.back().last = std::max(merged.back().last, interval.last);
    } else {
      merged.push_back(interval);
    }
  }
  return merged;
}

}  // namespace hydrac::plan
