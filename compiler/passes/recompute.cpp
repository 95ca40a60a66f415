#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;
using ir::ValueId;

bool is_norm(const Node& node) {
  return ops::op_info(node.op).from_statistics.has_value();
}

// The norms of queries and keys.
bool norms_heads(const Node& node) {
  return node.origin == "model.qk_norm" || node.origin == "model.ccgqa.l2_norm";
}

// True if the choice says that `output` of a forward node is computed again.
bool is_dropped(const RecomputeChoice& choice, const Node& node, Use output) {
  const std::string& scope = node.scope;
  // An adapter's input is as large as the norm or activation that it is made from, and recomputing it costs
  // one read of that.
  if (node.origin == "adapter.dropout") return true;
  if (node.op == ir::Op::expert_inputs) return true;  // k times as large as what it is gathered from
  const bool first = output == node.outputs[0];       // a norm's others are its rows' statistics
  // Ranks that divide the residual stream keep the gathered norm instead of the norm.
  const bool is_gathered_norm = node.op == ir::Op::all_gather && scope == "norm";
  const bool rotated = norms_heads(node) || scope == "rope";
  const bool attention = scope == "qkv" || rotated || scope == "attn";
  if (choice.block) return true;
  if (choice.norm && is_norm(node) && first && node.origin == "model.norm") return true;
  if (choice.norm && is_gathered_norm) return true;
  if (choice.act && scope == "act") return true;
  if (choice.qk_norm && rotated && first) return true;
  if (choice.attn && attention) return true;
  return choice.mlp && (scope == "mlp" || scope == "act");
}

// Copies forward nodes of a layer loop into its backward loop, on demand.
class Recomputer {
 public:
  Recomputer(ir::Graph& graph, const ir::Region& forward, const RecomputeChoice& choice)
      : graph_(graph), forward_(forward), choice_(choice) {
    // Without a norm, queries and keys are rotated in place, so keeping their earlier values would save
    // nothing.
    choice_.qk_norm &= std::ranges::any_of(forward.nodes, norms_heads);
  }

  // The use that stands for `use` in the backward loop: itself when it is kept, else a copy's output.
  Use available(Use use) {
    if (use.value == ir::kNoValue) return use;
    if (auto found = copies_.find(use); found != copies_.end()) return found->second;
    const Node* producer = producer_of(use);
    if (!producer) return use;
    copy(*producer, use);
    return copies_.at(use);
  }

  std::vector<Node> take_copies() { return std::move(nodes_); }

 private:
  // The forward node whose output in some iteration is `use`, if that output is not kept.
  const Node* producer_of(Use use) const {
    if (!use.slot.per_layer || graph_.value(use).role != ir::Role::activation) return nullptr;
    for (const Node& node : forward_.nodes) {
      for (Use output : node.outputs) {
        if (output.value != use.value) continue;
        const bool carried_stream =
            output.slot.index != 0 && !is_norm(node);  // the residual stream between layers
        return !carried_stream && is_dropped(choice_, node, output) &&
                       runs_at(node, use.slot.index - output.slot.index)
                   ? &node
                   : nullptr;
      }
    }
    return nullptr;
  }

  // True if the node can run `shift` iterations later in every iteration. The norm before a loop's first
  // layer cannot if its weight is another value than the loop's (frozen or not).
  bool runs_at(const Node& node, int shift) const {
    return std::ranges::all_of(node.inputs, [&](Use input) {
      return input.value == ir::kNoValue || !input.slot.per_layer ||
             graph_.value(input).parameter == std::nullopt ||
             (input.slot.index + shift >= 0 &&
              input.slot.index + shift + forward_.layers <= graph_.value(input).slots);
    });
  }

  // Runs `node` for the iteration that computes `wanted`.
  void copy(const Node& node, Use wanted) {
    const Use made = *std::ranges::find_if(node.outputs, [&](Use o) { return o.value == wanted.value; });
    const int shift = wanted.slot.index - made.slot.index;
    auto shifted = [&](Use use) {
      if (use.value != ir::kNoValue && use.slot.per_layer) use.slot.index += shift;
      return use;
    };
    Node again = node;
    // A norm whose statistics are kept needs no sums over its rows.
    if (is_norm(node) &&
        std::ranges::none_of(node.outputs.begin() + 1, node.outputs.end(),
                             [&](Use statistic) { return is_dropped(choice_, node, statistic); })) {
      again.op = *ops::op_info(node.op).from_statistics;
      again.attributes.erase("eps");
      again.inputs.insert(again.inputs.end(), node.outputs.begin() + 1, node.outputs.end());
      again.outputs.resize(1);
    }
    for (Use& input : again.inputs) input = available(shifted(input));
    for (Use& output : again.outputs) {
      const Use original = shifted(output);
      ir::Value value = graph_.value(output);
      value.name += ".again";
      value.slots = forward_.layers;
      output = {graph_.add(std::move(value)), {true, 0}};
      copies_[original] = output;
    }
    nodes_.push_back(std::move(again));
  }

  ir::Graph& graph_;
  const ir::Region& forward_;
  RecomputeChoice choice_;
  std::map<Use, Use> copies_;
  std::vector<Node> nodes_;
};

}  // namespace

std::string to_string(const RecomputeChoice& choice) {
  if (choice.block) return "block";
  std::vector<std::string> parts;
  if (choice.norm) parts.push_back("norm");
  if (choice.act) parts.push_back("act");
  if (choice.attn) parts.push_back("attn");
  if (choice.mlp) parts.push_back("mlp");
  if (choice.qk_norm) parts.push_back("qk_norm");
  return parts.empty() ? "none" : fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string in_words(const RecomputeChoice& choice) {
  if (choice.layers == 0) return to_string(choice);
  return fmt::format("{} in {} layer{}", to_string(choice), choice.layers, choice.layers == 1 ? "" : "s");
}

void recompute(ir::Graph& graph, const RecomputeChoice& choice, Log& log) {
  ir::Function& function = graph.function("micro_step");
  for (ir::Region& backward : function.regions) {
    if (!backward.backward || backward.layers == 0) continue;
    const std::string forward_name =
        backward.name.substr(0, backward.name.size() - std::string("_backward").size());
    const auto forward = std::ranges::find_if(
        function.regions, [&](const ir::Region& region) { return region.name == forward_name; });
    if (choice.layers > 0 && forward->first_layer >= choice.layers) continue;
    const ir::Region forward_copy = *forward;
    Recomputer recomputer(graph, forward_copy, choice);
    std::vector<Node> nodes;
    for (Node& node : backward.nodes) {
      for (Use& input : node.inputs) input = recomputer.available(input);
      for (Node& again : recomputer.take_copies()) {
        log.push_back({"recompute", fmt::format("{}: {}", backward.name, to_text(graph, again))});
        nodes.push_back(std::move(again));
      }
      nodes.push_back(std::move(node));
    }
    backward.nodes = std::move(nodes);
  }
}

}  // namespace hydrac::passes
