// Ranks that have a part of each slot of a tensor exchange them so that each slot is whole on one rank, its
// owner: of n ranks, rank r owns the r-th ceil(slots / n) slots. `parts` is [slots, ...], `whole` [own slots,
// ...], each slot as all its parts in the order of ranks; what the last ranks' `whole` has beyond the last
// slot becomes 0. Attribute to_owners: from parts to whole ones, else back. It is no op of a model, so no
// gradient flows through it.
#include "ops/op.h"

namespace hydrac::ops {

namespace {

// Each rank sends its parts of what others own, or all parts but its own of what it owns.
Cost all_to_all_cost(const ir::Graph& graph, const ir::Node& node) {
  const auto ranks = static_cast<double>(node.integer("ranks"));
  Cost cost;
  for (const ir::Use use : node.flag("to_owners") ? node.inputs : node.outputs) {
    const ir::Value& parts = graph.value(use);
    cost.bytes += (ranks - 1) / ranks * static_cast<double>(element_count(parts.shape)) *
                  static_cast<double>(size_of(parts.dtype));
  }
  return cost;
}

}  // namespace

extern const OpInfo kAllToAll{.op = ir::Op::all_to_all,
                              .formula = "whole = all ranks' parts of the slots that this rank owns",
                              .inputs = {"parts"},
                              .outputs = {"whole"},
                              .cost = all_to_all_cost};

}  // namespace hydrac::ops
