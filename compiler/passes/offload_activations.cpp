#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using ir::ValueId;

constexpr int64_t kWorthIt = 1 << 20;  // bytes of a layer's tensor

// How a storage is used, over the whole graph.
struct StorageUses {
  bool is_simple = true;  // by the two loops alone, each of them in its own layer's slot, in whole views
  int last_writer = -1;   // node of the forward loop
  int first_reader = -1;  // node of the backward loop, as the next one is
  int last_use = -1;
};

// One pair of loops.
class LoopOffload {
 public:
  LoopOffload(ir::Graph& graph, std::vector<Region>& regions, size_t forward, size_t backward)
      : graph_(graph), regions_(regions), forward_(forward), backward_(backward) {}

  // The tensors that moved, in the order in which the backward pass needs them.
  std::vector<ValueId> run() {
    std::vector<ValueId> chosen = candidates();
    if (chosen.empty()) return chosen;
    Region ahead{regions_[backward_].name + "_ahead", 0, false, true, {}};
    std::map<int, std::vector<Node>> stores, fetches;  // behind a node of the loop
    for (const ValueId id : chosen) {
      const ValueId host = add_like(id, ".host", true), back = add_like(id, ".back", false);
      stores[uses_.at(id).last_writer].push_back(transfer({id, {true, 0}}, {host, {true, 1}}));
      fetches[uses_.at(id).last_use].push_back(transfer({host, {true, 0}}, {back, {true, 0}}));
      const int last = regions_[forward_].layers;
      ahead.nodes.push_back(transfer({host, {false, last}}, {back, {false, last}}));
      read_from(id, back);
    }
    insert(stores, regions_[forward_].nodes);
    insert(fetches, regions_[backward_].nodes);
    regions_.insert(regions_.begin() + static_cast<std::ptrdiff_t>(backward_), std::move(ahead));
    return chosen;
  }

 private:
  // Slot l + 1 is layer l's, so that iteration l can fetch what the next iteration, layer l - 1, reads. The
  // last iteration fetches slot 0, which nobody reads.
  ValueId add_like(ValueId id, const std::string& suffix, bool on_host) {
    ir::Value value = graph_.value(id);
    value.name += suffix;
    value.slots = regions_[forward_].layers + 1;
    value.on_host = on_host;
    if (on_host) value.role = ir::Role::state;
    return graph_.add(std::move(value));
  }

  static Node transfer(Use from, Use to) {
    return {.op = ir::Op::transfer,
            .inputs = {from},
            .outputs = {to},
            .scope = "offload",
            .origin = "optimizations.offload.activations"};
  }

  std::vector<ValueId> candidates() {
    for_each_use(graph_, [&](const Region& region, const Node& node, Use use, bool is_output) {
      if (use.value != ir::kNoValue) note(region, node, use, is_output);
    });
    std::vector<ValueId> chosen;
    for (const auto& [id, uses] : uses_)
      if (uses.is_simple && uses.last_writer >= 0 && uses.first_reader >= 0 && is_large(graph_.value(id)))
        chosen.push_back(id);
    std::ranges::stable_sort(chosen, {}, [&](ValueId id) { return uses_.at(id).first_reader; });
    return chosen;
  }

  static bool is_large(const ir::Value& value) {
    return value.role == ir::Role::activation &&
           element_count(value.shape) * size_of(value.dtype) >= kWorthIt;
  }

  void note(const Region& region, const Node& node, Use use, bool is_output) {
    const ValueId storage = storage_of(graph_, use.value);
    StorageUses& uses = uses_[storage];
    const bool in_forward = &region == &regions_[forward_], in_backward = &region == &regions_[backward_];
    const ir::Slot slot = storage_slot(graph_, use);
    uses.is_simple &= (in_forward || in_backward) && use.slot == ir::Slot{true, 0} &&
                      slot == ir::Slot{true, 0} && resolved_slot_stride(use.value) == 0 &&
                      graph_.value(storage).slots == region.layers;
    const int at = static_cast<int>(&node - region.nodes.data());
    if (in_forward && is_output) uses.last_writer = at;
    if (in_backward && !is_output && uses.first_reader < 0) uses.first_reader = at;
    if (in_backward) uses.last_use = at;
    // The backward loop puts something else there before it reads than the forward loop left.
    if (in_backward && is_output && uses.first_reader < 0) uses.is_simple = false;
  }

  int64_t resolved_slot_stride(ValueId id) const {
    return graph_.value(id).view ? resolved_view(graph_, id).slot_stride : 0;
  }

  // Lets the backward loop use `back` and views of it where it uses `id` and views of that.
  void read_from(ValueId id, ValueId back) {
    std::map<ValueId, ValueId> replaced = {{id, back}};
    const auto replace = [&](Use& use) {
      if (use.value == ir::kNoValue || storage_of(graph_, use.value) != id) return;
      const auto [found, is_new] = replaced.try_emplace(use.value, ir::kNoValue);
      if (is_new) found->second = view_of(use.value, back);
      use = {found->second, {true, 1}};
    };
    for (Node& node : regions_[backward_].nodes) {
      for (Use& use : node.inputs) replace(use);
      for (Use& use : node.outputs) replace(use);
      replace(node.matmul);
    }
  }

  ValueId view_of(ValueId id, ValueId base) {
    ir::Value value = graph_.value(id);
    value.name += ".back";
    value.slots = graph_.value(base).slots;
    value.view = resolved_view(graph_, id);
    value.view->base = base;
    return graph_.add(std::move(value));
  }

  static void insert(const std::map<int, std::vector<Node>>& behind, std::vector<Node>& nodes) {
    for (auto found = behind.rbegin(); found != behind.rend(); ++found)
      nodes.insert(nodes.begin() + found->first + 1, found->second.begin(), found->second.end());
  }

  ir::Graph& graph_;
  std::vector<Region>& regions_;
  const size_t forward_, backward_;
  std::map<ValueId, StorageUses> uses_;
};

// The forward loop of a backward one.
std::optional<size_t> forward_of(const std::vector<Region>& regions, const Region& backward) {
  const std::string name = backward.name.substr(0, backward.name.size() - std::string("_backward").size());
  for (size_t r = 0; r < regions.size(); ++r)
    if (regions[r].name == name) return r;
  return std::nullopt;
}

}  // namespace

void offload_activations(ir::Graph& graph, Log& log) {
  std::vector<Region>& regions = graph.function("micro_step").regions;
  for (size_t r = 0; r < regions.size(); ++r) {
    if (!regions[r].backward || regions[r].layers == 0 || !regions[r].name.ends_with("_backward")) continue;
    const std::optional<size_t> forward = forward_of(regions, regions[r]);
    if (!forward || regions[*forward].layers != regions[r].layers) continue;
    const std::string name = regions[*forward].name;
    const std::vector<ValueId> moved = LoopOffload(graph, regions, *forward, r).run();
    int64_t bytes = 0;
    std::vector<std::string> names;
    for (const ValueId id : moved) {
      const ir::Value& value = graph.value(id);
      names.push_back(value.name);
      bytes += element_count(value.shape) * size_of(value.dtype);
    }
    log.push_back(
        {"offload", moved.empty()
                        ? fmt::format("{}: nothing that is kept for the backward pass can move", name)
                        : fmt::format("{}: {} bytes of each layer move to the host: {}", name, bytes,
                                      fmt::join(names, ", "))});
    if (!moved.empty()) ++r;  // behind the region that was added
  }
}

}  // namespace hydrac::passes
