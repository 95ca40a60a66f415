#include "autodiff/autodiff.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "ops/gradient.h"
#include "ops/op.h"

namespace hydrac::autodiff {

namespace {

using ir::Use;
using ir::ValueId;

// Values of a region whose gradients trained parameters need. A value that is wanted in one iteration is
// wanted in all.
using Wanted = std::map<const ir::Region*, std::set<Use>>;

// Walks forward, once an iteration of each loop. The slots of a value count separately: below the first layer
// that trains, the residual stream needs no gradient.
Wanted wanted_gradients(const ir::Graph& graph, const ir::Function& function) {
  std::set<std::pair<ValueId, int>> depends;  // slots that depend on something trained
  const auto trains = [&](Use use, int layer) {
    return use.value != ir::kNoValue && (graph.value(use).role == ir::Role::parameter ||
                                         depends.contains({use.value, use.slot.at(layer)}));
  };
  Wanted wanted;
  for (const ir::Region& region : function.regions) {
    std::set<Use>& here = wanted[&region];
    for (int layer = 0; layer < std::max(region.layers, 1); ++layer) {
      for (const ir::Node& node : region.nodes) {
        if (!ops::op_info(node.op).gradient) continue;
        bool flows = false;
        for (Use use : node.inputs) {
          if (!trains(use, layer)) continue;
          here.insert(use);
          flows = true;
        }
        if (!flows) continue;
        for (Use output : node.outputs) {
          depends.insert({output.value, output.slot.at(layer)});
          here.insert(output);
        }
      }
    }
  }
  return wanted;
}

// Values that are written in one region or iteration and read in another. Their gradients are handed between
// backward regions in a value of their own, "d_<name>", with as many slots.
std::set<ValueId> carried_values(const ir::Graph& graph, const ir::Function& function) {
  std::map<ValueId, std::set<std::pair<const ir::Region*, ir::Slot>>> places;
  for (const ir::Region& region : function.regions) {
    for (const ir::Node& node : region.nodes) {
      for (const auto* uses : {&node.inputs, &node.outputs}) {
        for (Use use : *uses) {
          if (use.value != ir::kNoValue) places[use.value].insert({&region, use.slot});
        }
      }
    }
  }
  std::set<ValueId> carried;
  for (const auto& [value, where] : places) {
    if (where.size() > 1 && graph.value(value).role == ir::Role::activation) carried.insert(value);
  }
  return carried;
}

// State of a whole differentiation.
struct Walk {
  ir::Graph& graph;
  const Options& options;
  const Wanted wanted;
  std::set<ValueId> carried;
  std::map<ValueId, ValueId> carried_gradients;    // value -> d_value
  std::map<ValueId, ValueId> parameter_gradients;  // parameter -> d_parameter
  std::set<Use> written_parameters;                // gradients that hold something already in this walk
  std::set<Use> written_carried;                   // the same for carried gradients

  ValueId gradient_value(ValueId of, ir::Role role) {
    auto& known = role == ir::Role::gradient ? parameter_gradients : carried_gradients;
    if (auto found = known.find(of); found != known.end()) return found->second;
    ir::Value gradient;
    gradient.name = "d_" + graph.value(of).name;
    gradient.shape = graph.value(of).shape;
    gradient.dtype = graph.value(of).dtype;
    gradient.slots = graph.value(of).slots;
    gradient.exact = graph.value(of).exact;
    gradient.role = role;
    return known[of] = graph.add(std::move(gradient));
  }
};

class RegionGradient final : public ops::Gradient {
 public:
  // `wanted`: of the forward region.
  RegionGradient(Walk& walk, ir::Region& region, const std::set<Use>& wanted)
      : Gradient(walk.graph, region), walk_(walk), wanted_(wanted) {}

  std::optional<Use> of(Use output) override {
    auto found = gradients_.find(output);
    return found == gradients_.end() ? std::nullopt : std::optional(found->second);
  }

  // The gradient of `use` that the region or iteration before this one left.
  void receive(Use use, Use gradient) { gradients_[use] = gradient; }

  bool wanted(Use input) const override { return wanted_.contains(input); }

  void contribute(Use input, Use gradient) override {
    const std::optional<Use> before = of(input);
    if (!before) {
      gradients_[input] = gradient;
      return;
    }
    const Use sum = emit(ir::Op::add, {*before, gradient}, name_of(input) + ".sum", shape(input),
                         {{"of_gradients", true}});
    graph_.value(sum.value).exact = value(input).exact;
    gradients_[input] = sum;
  }

  ops::ParameterGradient parameter(Use parameter) override {
    const Use target{walk_.gradient_value(parameter.value, ir::Role::gradient), parameter.slot};
    const bool first = walk_.written_parameters.insert(target).second;
    return {target, walk_.options.accumulate_micro_batches || !first};
  }

  // Gradients of values that earlier forward regions wrote must end in the carried value. `backward_nodes`:
  // the index of this region's first backward node.
  void hand_over(size_t backward_nodes, const std::set<Use>& written_here) {
    for (auto& [use, gradient] : gradients_) {
      if (!walk_.carried.contains(use.value) || written_here.contains(use)) continue;
      const Use target{walk_.gradient_value(use.value, ir::Role::activation), use.slot};
      if (gradient == target) continue;
      redirect(backward_nodes, gradient, target);
      gradient = target;
      walk_.written_carried.insert(target);
    }
  }

 private:
  // The node that computed `from` writes `to` instead, and readers follow.
  void redirect(size_t backward_nodes, Use from, Use to) {
    bool written = false;
    for (size_t i = backward_nodes; i < region_.nodes.size(); ++i) {
      ir::Node& node = region_.nodes[i];
      for (Use& output : node.outputs) written |= output == from;
      std::ranges::replace(node.outputs, from, to);
      std::ranges::replace(node.inputs, from, to);
    }
    if (!written) {
      throw std::logic_error(fmt::format("gradient {} passes through a region unchanged", value(to).name));
    }
    for (auto& [use, gradient] : gradients_) {
      if (gradient == from) gradient = to;
    }
  }

  Walk& walk_;
  const std::set<Use>& wanted_;
  std::map<Use, Use> gradients_;
};

// Gives the region's outputs the gradients that later regions and iterations left. A loop expects one from
// the iteration after it in every slot; for the last iteration that is the slot the next region wrote, or
// zero, which `before`, the backward region that runs just before this one, then writes.
void receive_carried(Walk& walk, const ir::Region& forward, const std::vector<ir::Node>& nodes,
                     RegionGradient& gradient, ir::Region* before) {
  for (const ir::Node& node : nodes) {
    for (Use output : node.outputs) {
      if (!walk.carried.contains(output.value) || !gradient.wanted(output)) continue;
      const Use incoming{walk.gradient_value(output.value, ir::Role::activation), output.slot};
      if (!output.slot.per_layer) {
        if (walk.written_carried.contains(incoming)) gradient.receive(output, incoming);
        continue;
      }
      const Use last{incoming.value, {false, forward.layers - 1 + output.slot.index}};
      if (walk.written_carried.insert(last).second) {
        ops::RegionBuilder zero(walk.graph, *before);
        zero.enter(node.scope, node.origin);
        zero.emit_node(ir::Op::zero, {}, {last});
      }
      gradient.receive(output, incoming);
    }
  }
}

// After a loop every slot of a carried value has its gradient, and the regions before it ask for fixed slots.
void finish_loop(Walk& walk, int layers) {
  for (Use use : std::set<Use>(walk.written_carried)) {
    if (!use.slot.per_layer) continue;
    walk.written_carried.erase(use);
    for (int l = 0; l < layers; ++l) walk.written_carried.insert({use.value, {false, l + use.slot.index}});
  }
}

void differentiate_region(Walk& walk, const ir::Region& forward, const std::vector<ir::Node>& nodes,
                          ir::Region& backward, ir::Region* before) {
  RegionGradient gradient(walk, backward, walk.wanted.at(&forward));
  receive_carried(walk, forward, nodes, gradient, before);
  const size_t first = backward.nodes.size();
  std::set<Use> written_here;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    written_here.insert(node->outputs.begin(), node->outputs.end());
    const ops::OpInfo& op = ops::op_info(node->op);
    if (!op.gradient) continue;
    if (!op.is_loss &&
        std::ranges::none_of(node->outputs, [&](Use output) { return gradient.of(output).has_value(); })) {
      continue;
    }
    if (std::ranges::none_of(node->inputs, [&](Use input) { return gradient.wanted(input); })) continue;
    gradient.enter(node->scope, node->origin);
    op.gradient(gradient, *node);
  }
  gradient.hand_over(first, written_here);
  if (forward.layers > 0) finish_loop(walk, forward.layers);
}

}  // namespace

void differentiate(ir::Graph& graph, ir::Function& function, const Options& options) {
  Walk walk{graph, options, wanted_gradients(graph, function), carried_values(graph, function), {}, {},
            {},    {}};
  std::vector<ir::Region> backward_regions;
  for (size_t i = function.regions.size(); i-- > 0;) {
    ir::Region& forward = function.regions[i];
    const std::vector<ir::Node> nodes = forward.nodes;
    if (i + 1 == function.regions.size()) {
      differentiate_region(walk, forward, nodes, forward, nullptr);
      continue;
    }
    ir::Region* before = backward_regions.empty() ? &function.regions.back() : &backward_regions.back();
    ir::Region backward{forward.name + "_backward", forward.layers, forward.layers > 0, true, {},
                        forward.first_layer};
    differentiate_region(walk, forward, nodes, backward, before);
    if (!backward.nodes.empty()) backward_regions.push_back(std::move(backward));
  }
  for (ir::Region& region : backward_regions) function.regions.push_back(std::move(region));
}

}  // namespace hydrac::autodiff
