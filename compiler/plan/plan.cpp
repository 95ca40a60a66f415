#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/liveness.h"

namespace hydrac::plan {

namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t slot_bytes(const ir::Value& value) {
  return aligned(element_count(value.shape) * size_of(value.dtype));
}

bool overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].first < b[j].last && b[j].first < a[i].last) return true;
    (a[i].last <= b[j].last ? i : j) += 1;
  }
  return false;
}

// The arena begins with persistent values: inputs, which the host writes in one piece, then the others, in
// order of declaration.
int64_t place_persistent(const ir::Graph& graph, Plan& plan) {
  int64_t offset = 0;
  auto place = [&](bool inputs) {
    for (const ir::Value& value : graph.values) {
      if (value.role == ir::Role::activation || value.role == ir::Role::divided || value.view ||
          value.on_host || (value.role == ir::Role::input) != inputs)
        continue;
      plan.placements[value.id] = {offset, slot_bytes(value), value.slots};
      offset += plan.placements[value.id].bytes();
    }
  };
  place(true);
  plan.input_bytes = offset;
  place(false);
  return offset;
}

// The arena ends with the values in host memory, moments first; the GPU keeps their first `kept` bytes.
void place_on_host(const ir::Graph& graph, Plan& plan, int64_t kept) {
  const auto pages = [](int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  int64_t bytes = 0;
  const auto place = [&](bool moments) {
    for (const ir::Value& value : graph.values) {
      if (!value.on_host || value.view || (value.role == ir::Role::optimizer_state) != moments) continue;
      if (bytes == 0) plan.arena_bytes = pages(plan.arena_bytes);
      plan.placements[value.id] = {plan.arena_bytes + bytes, slot_bytes(value), value.slots};
      bytes += plan.placements[value.id].bytes();
    }
  };
  place(true);
  place(false);
  plan.kept_bytes = std::min(kept, bytes) / kPage * kPage;
  plan.host_bytes = pages(bytes) - plan.kept_bytes;
  plan.arena_bytes += pages(bytes);
}

void place_divided(const ir::Graph& graph, Plan& plan) {
  int64_t offset = plan.arena_bytes;
  for (const ir::Value& value : graph.values) {
    if (value.role != ir::Role::divided) continue;
    plan.divided[value.id] = offset;
    offset += slot_bytes(value);
  }
}

struct Block {
  ir::ValueId id;
  int64_t bytes;
  std::vector<Interval> intervals;
};

// Biggest first, each at the lowest offset where it meets nobody that is alive with it.
void place_activations(Plan& plan, std::vector<Block> blocks) {
  std::ranges::stable_sort(blocks, [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  std::vector<const Block*> placed;
  for (const Block& block : blocks) {
    std::vector<std::pair<int64_t, int64_t>> taken;  // [first, last) of blocks alive with this one
    for (const Block* other : placed) {
      if (!overlap(block.intervals, other->intervals)) continue;
      const Placement& placement = plan.placements[other->id];
      taken.emplace_back(placement.offset, placement.offset + other->bytes);
    }
    std::ranges::sort(taken);
    int64_t offset = plan.persistent_bytes;
    for (const auto& [first, last] : taken) {
      if (offset + block.bytes <= first) break;
      offset = std::max(offset, last);
    }
    plan.placements[block.id].offset = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + block.bytes);
    placed.push_back(&block);
  }
}

void count_live_bytes(const Liveness& liveness, const std::vector<Block>& blocks, Plan& plan) {
  std::map<std::string, std::vector<int64_t>> change;
  for (const Block& block : blocks) {
    std::vector<int64_t>& steps = change[liveness.lives.at(block.id).function];
    steps.resize(liveness.steps + 1);
    for (const Interval& interval : block.intervals) {
      steps[interval.first] += block.bytes;
      steps[interval.last] -= block.bytes;
    }
  }
  for (const auto& [function, steps] : change) {
    int64_t live = 0, most = 0;
    for (int64_t delta : steps) most = std::max(most, live += delta);
    plan.live_bytes[function] = most;
  }
}

Plan plan_with(const ir::Graph& graph, const std::set<ir::ValueId>& lingers, int64_t kept, int64_t exchange) {
  Plan plan;
  plan.persistent_bytes = plan.arena_bytes = place_persistent(graph, plan);
  const Liveness liveness = liveness_of(graph, lingers);
  std::vector<Block> blocks;
  for (const auto& [id, life] : liveness.lives) {
    Placement& placement = plan.placements[id];
    placement.slot_bytes = slot_bytes(graph.value(id));
    placement.slots = slots_needed(life);
    plan.intervals[id] = merged_intervals(life);
    blocks.push_back({id, placement.bytes(), plan.intervals[id]});
  }
  count_live_bytes(liveness, blocks, plan);
  place_activations(plan, std::move(blocks));
  plan.exchange_offset = plan.arena_bytes;
  plan.exchange_bytes = aligned(exchange);
  plan.arena_bytes += plan.exchange_bytes;
  place_on_host(graph, plan, kept);
  place_divided(graph, plan);
  return plan;
}

}  // namespace

Plan make_plan(const ir::Graph& graph, int64_t kept, int64_t exchange) {
  return plan_with(graph, {}, kept, exchange);
}

Plan roomy_plan(const ir::Graph& graph, const std::set<ir::ValueId>& beside, int64_t most_bytes, int64_t kept,
                int64_t exchange) {
  constexpr int64_t little = int64_t{256} << 20;
  Plan tight = make_plan(graph, kept, exchange);
  if (beside.empty()) return tight;
  Plan roomy = plan_with(graph, beside, kept, exchange);
  return roomy.device_bytes() <= std::min(tight.device_bytes() + little, most_bytes) ? roomy : tight;
}

int64_t address(const ir::Graph& graph, const Plan& plan, ir::Use use, int layer) {
  const ir::View view = resolved_view(graph, use.value);
  const ir::ValueId storage = storage_of(graph, use.value);
  const int64_t element = size_of(graph.value(storage).dtype);
  const int64_t within = (view.offset + use.slot.at(layer) * view.slot_stride) * element;
  if (const auto divided = plan.divided.find(storage); divided != plan.divided.end())
    return divided->second + within;
  const Placement& placement = plan.placements.at(storage);
  const int physical = storage_slot(graph, use).at(layer) % placement.slots;
  return placement.offset + physical * placement.slot_bytes + within;
}

int64_t extent(const ir::Graph& graph, ir::Use use) {
  const ir::Value& value = graph.value(use);
  const ir::View view = resolved_view(graph, use.value);
  int64_t last = 0;
  for (size_t d = 0; d < value.shape.size(); ++d) last += (value.shape[d].size - 1) * view.strides[d];
  return (last + 1) * size_of(value.dtype);
}

std::vector<std::string> verify(const ir::Graph& graph, const Plan& plan) {
  std::vector<std::string> problems;
  for (const auto& [a, x] : plan.placements) {
    if (x.offset < 0 || x.offset + x.bytes() > plan.arena_bytes || x.offset % kAlignment != 0) {
      problems.push_back(
          fmt::format("{} is placed at {}, outside the arena or not aligned", graph.value(a).name, x.offset));
    }
    for (const auto& [b, y] : plan.placements) {
      if (a >= b || x.offset >= y.offset + y.bytes() || y.offset >= x.offset + x.bytes()) continue;
      const auto i = plan.intervals.find(a), j = plan.intervals.find(b);
      const bool persistent = i == plan.intervals.end() || j == plan.intervals.end();
      if (persistent || overlap(i->second, j->second)) {
        problems.push_back(fmt::format("{} and {} share memory while both are alive", graph.value(a).name,
                                       graph.value(b).name));
      }
    }
  }
  return problems;
}

std::string to_text(const ir::Graph& graph, const Plan& plan) {
  std::string text =
      fmt::format("arena {} bytes, of which {} live on{}\n", plan.arena_bytes, plan.persistent_bytes,
                  plan.host_bytes > 0 ? fmt::format(", and {} at its end on the host", plan.host_bytes) : "");
  std::vector<std::pair<Placement, ir::ValueId>> order;
  for (const auto& [id, placement] : plan.placements) order.emplace_back(placement, id);
  std::ranges::stable_sort(order,
                           [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
  for (const auto& [placement, id] : order) {
    const ir::Value& value = graph.value(id);
    text += fmt::format("{:>14} {:>14}  {} {}{} {}\n", placement.offset, placement.bytes(), value.name,
                        symbols_of(value.shape),
                        value.slots > 1 ? fmt::format(" x {} of {}", placement.slots, value.slots) : "",
                        to_string(value.role));
  }
  return text;
}

}  // namespace hydrac::plan
