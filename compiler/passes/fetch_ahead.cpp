#include <algorithm>
#include <stdexcept>
#include <vector>

#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using ir::ValueId;

bool fetches_weights(const Node& node) {
  return node.optional_flag("weights_of_layer");
}

// A backward loop. Slot l + 1 of its layers' weights becomes layer l's, and iteration l fills slot l for the
// next iteration. Nobody reads what the last iteration fetches: a loop has no exceptions.
class BackwardLoop {
 public:
  BackwardLoop(ir::Graph& graph, Region& region)
      : graph_(graph), region_(region), storage_(storage_of(graph, region.nodes.front().outputs[0].value)) {}

  // Returns the region that gathers for the first iteration.
  Region run() {
    Node gather = std::move(region_.nodes.front());
    region_.nodes.erase(region_.nodes.begin());
    for (ir::Value& value : graph_.values)
      if (storage_of(graph_, value.id) == storage_) ++value.slots;
    for (Node& node : region_.nodes) {
      for (Use& use : node.inputs) read_shifted(use);
      read_shifted(node.matmul);
    }
    for (Use& use : gather.inputs) use.value = from_the_layer_below(use.value);
    gather.attributes["ahead"] = true;
    Region ahead{region_.name + "_gather", 0, false, true, {gather}};
    for (auto* uses : {&ahead.nodes[0].inputs, &ahead.nodes[0].outputs})
      for (Use& use : *uses) use.slot = {false, region_.layers + use.slot.index};
    // After the first reader, which waits for the previous iteration's gather: emitted code waits for the
    // newest run of a call.
    const auto reader = std::ranges::find_if(region_.nodes, [&](const Node& node) {
      return std::ranges::any_of(node.inputs, [&](Use use) { return is_weight(use); });
    });
    region_.nodes.insert(reader + 1, std::move(gather));
    return ahead;
  }

 private:
  bool is_weight(Use use) const {
    return use.value != ir::kNoValue && storage_of(graph_, use.value) == storage_;
  }
  void read_shifted(Use& use) const {
    if (is_weight(use)) ++use.slot.index;
  }

  // A rank's rows: slot 0 is what lies in front of the first layer's, see ParameterGroup::rows_ahead.
  ValueId from_the_layer_below(ValueId own) {
    ir::Value value = graph_.value(own);
    value.name += ".and_ahead";
    value.view = resolved_view(graph_, own);
    value.view->offset -= value.view->slot_stride;
    if (value.view->offset < 0) throw std::logic_error(value.name + " has no room in front");
    ++value.slots;
    return graph_.add(std::move(value));
  }

  ir::Graph& graph_;
  Region& region_;
  const ValueId storage_;
};

}  // namespace

void fetch_ahead(ir::Graph& graph, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (size_t r = 0; r < function.regions.size(); ++r) {
      Region& region = function.regions[r];
      std::ranges::stable_partition(region.nodes, fetches_weights);
      for (Node& node : region.nodes)
        if (fetches_weights(node)) node.attributes["beside"] = true;
      const bool gathers = !region.nodes.empty() && fetches_weights(region.nodes.front()) &&
                           region.nodes.front().op == ir::Op::all_gather;
      if (!gathers || !region.reverse || region.layers == 1) continue;
      Region ahead = BackwardLoop(graph, region).run();
      function.regions.insert(function.regions.begin() + static_cast<std::ptrdiff_t>(r), std::move(ahead));
      ++r;
    }
  }
  log.push_back({"weights", "a layer's are fetched while the layer before it computes"});
}

}  // namespace hydrac::passes
