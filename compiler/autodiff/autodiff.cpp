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

// Values whose gradient depends on something trained. Found by walking forward once: loops need no second
// round because what a loop carries is first written by the region before it.
std::set<ValueId> differentiable_values(const ir::Graph& graph, const ir::Function& function) {
  std::set<ValueId> wanted;
  for (const ir::Value& value : graph.values) {
    if (value.role == ir::Role::parameter) wanted.insert(value.id);
  }
  for (const ir::Region& region : function.regions) {
    for (const ir::Node& node : region.nodes) {
      if (!ops::op_info(node.op).gradient) continue;
      const bool flows = std::ranges::any_of(
          node.inputs, [&](Use use) { return use.value != ir::kNoValue && wanted.contains(use.value); });
      if (!flows) continue;
      for (Use output : node.outputs) wanted.insert(output.value);
    }
  }
  return wanted;
}

// Values that are read in another region, or by another iteration, than they are written in. Their gradients
// travel between backward regions in a value of their own, "d_<name>", with as many slots.
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

// What a whole differentiation shares.
struct Walk {
  ir::Graph& graph;
  const Options& options;
  std::set<ValueId> wanted;
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
  RegionGradient(Walk& walk, ir::Region& region) : Gradient(walk.graph, region), walk_(walk) {}

  std::optional<Use> of(Use output) override {
    auto found = gradients_.find(output);
    return found == gradients_.end() ? std::nullopt : std::optional(found->second);
  }

  // The gradient of `use` that the region or iteration before this one left.
  void receive(Use use, Use gradient) { gradients_[use] = gradient; }

  bool wanted(Use input) const override {
    return input.value != ir::kNoValue && walk_.wanted.contains(input.value);
  }

  void contribute(Use input, Use gradient) override {
    const std::optional<Use> before = of(input);
    if (!before) {
      gradients_[input] = gradient;
      return;
    }
    const Use sum =
        emit("add", {*before, gradient}, name_of(input) + ".sum", shape(input), {{"of_gradients", true}});
    graph_.value(sum.value).exact = value(input).exact;
    gradients_[input] = sum;
  }

  ops::ParameterGradient parameter(Use parameter) override {
    const Use target{walk_.gradient_value(parameter.value, ir::Role::gradient), parameter.slot};
    const bool first = walk_.written_parameters.insert(target).second;
    return {target, walk_.options.accumulate_micro_batches || !first};
  }

  // Gradients of what earlier forward regions wrote must end in the carried value. `backward_nodes` starts
  // where this region's backward nodes start.
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
  std::map<Use, Use> gradients_;
};

// Gives the region's outputs the gradients that later regions and iterations left. A loop expects one from
// the iteration after it in every slot; for the last iteration that is the slot the next region wrote, or
// zero, which `before`, the backward region that runs just before this one, then writes.
void receive_carried(Walk& walk, const ir::Region& forward, const std::vector<ir::Node>& nodes,
                     RegionGradient& gradient, ir::Region* before) {
  for (const ir::Node& node : nodes) {
    for (Use output : node.outputs) {
      if (!walk.carried.contains(output.value) || !walk.wanted.contains(output.value)) continue;
      const Use incoming{walk.gradient_value(output.value, ir::Role::activation), output.slot};
      if (!output.slot.per_layer) {
        if (walk.written_carried.contains(incoming)) gradient.receive(output, incoming);
        continue;
      }
      const Use last{incoming.value, {false, forward.layers - 1 + output.slot.index}};
      if (walk.written_carried.insert(last).second) {
        ops::RegionBuilder zero(walk.graph, *before);
        zero.enter(node.scope, node.origin);
        zero.emit_node("zero", {}, {last});
      }
      gradient.receive(output, incoming);
    }
  }
}

// After a loop every slot of what it carries has its gradient, and the regions before it read fixed slots.
void finish_loop(Walk& walk, int layers, std::set<Use> written) {
  for (Use use : written) {
    if (!use.slot.per_layer) continue;
    for (int l = 0; l < layers; ++l) walk.written_carried.insert({use.value, {false, l + use.slot.index}});
  }
}

void differentiate_region(Walk& walk, const ir::Region& forward, const std::vector<ir::Node>& nodes,
                          ir::Region& backward, ir::Region* before) {
  RegionGradient gradient(walk, backward);
  receive_carried(walk, forward, nodes, gradient, before);
  const size_t first = backward.nodes.size();
  std::set<Use> written_here;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    written_here.insert(node->outputs.begin(), node->outputs.end());
    const ops::OpInfo& op = ops::op_info(node->op);
    if (!op.gradient) continue;
    const bool is_loss = node->op == "mean_loss";
    if (!is_loss &&
        std::ranges::none_of(node->outputs, [&](Use output) { return gradient.of(output).has_value(); })) {
      continue;
    }
    if (std::ranges::none_of(node->inputs, [&](Use input) { return gradient.wanted(input); })) continue;
    gradient.enter(node->scope, node->origin);
    op.gradient(gradient, *node);
  }
  gradient.hand_over(first, written_here);
  if (forward.layers > 0) finish_loop(walk, forward.layers, std::set<Use>(walk.written_carried));
}

}  // namespace

void differentiate(ir::Graph& graph, ir::Function& function, const Options& options) {
  Walk walk{graph, options, differentiable_values(graph, function), carried_values(graph, function), {}, {},
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
    ir::Region backward{forward.name + "_backward", forward.layers, forward.layers > 0, true, {}};
    differentiate_region(walk, forward, nodes, backward, before);
    backward_regions.push_back(std::move(backward));
  }
  for (ir::Region& region : backward_regions) function.regions.push_back(std::move(region));
}

}  // namespace hydrac::autodiff
