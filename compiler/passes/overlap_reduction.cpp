#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "passes/finished_gradients.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using ir::ValueId;

// Removes and returns the sum of all gradients and the losses from the update.
Node take_sum(ir::Graph& graph, const std::set<ValueId>& gradients) {
  for (Region& region : graph.function("update").regions) {
    const auto found = std::ranges::find_if(region.nodes, [&](const Node& node) {
      return node.op == ir::Op::all_reduce && gradients.contains(storage_of(graph, node.outputs[0].value));
    });
    if (found == region.nodes.end()) continue;
    Node whole = std::move(*found);
    region.nodes.erase(found);
    return whole;
  }
  throw std::logic_error("nothing is summed over ranks");
}

}  // namespace

void overlap_reduction(ir::Graph& graph, const models::Pack& pack, Log& log) {
  std::set<ValueId> gradients;
  for (const models::ParameterGroup& group : pack.groups)
    gradients.insert(storage_of(graph, group.gradients));
  const Node whole = take_sum(graph, gradients);
  const auto sum = [&](const std::vector<Use>& uses) {
    Node node = whole;
    node.inputs = node.outputs = uses;
    return std::vector{node};
  };
  std::vector<Use> losses;  // which are there by then
  for (const Use use : whole.outputs)
    if (!gradients.contains(storage_of(graph, use.value))) losses.push_back(use);
  const int sums = FinishedGradients(graph, gradients).place(sum, losses);
  log.push_back({"ranks", fmt::format("gradients are summed over ranks as soon as they are finished, beside "
                                      "the rest of the backward pass: {} sums in its text",
                                      sums)});
}

}  // namespace hydrac::passes
