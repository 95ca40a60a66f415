// Tensors become the parts of all ranks, one behind the other in the order of ranks. It is no op of a model,
// except where ranks share layers (attribute tensor: of those ranks): there what follows is the same on all
// of them, so that the gradient of a rank's part is its part of the gradient; with attribute of_terms every
// rank computes something else of the whole, and that part is one of the sum.
#include <algorithm>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/op.h"

namespace hydrac::ops {

std::vector<Use> gather_over_ranks(RegionBuilder& b, const std::vector<Use>& parts, int64_t ranks) {
  std::vector<Use> wholes;
  for (const Use part : parts) {
    ir::Shape shape = b.shape(part);
    shape.insert(shape.begin(), {ranks, ""});
    wholes.push_back(b.fresh(b.value(part).name + "s", std::move(shape)));
    if (b.value(part).exact) b.exact(wholes.back());
  }
  b.emit_node(ir::Op::all_gather, parts, wholes, {{"ranks", ranks}, {"tensor", true}});
  return wholes;
}

Use gather_rows(RegionBuilder& b, Use x, ir::Shape whole, int64_t ranks, bool of_terms,
                const std::string& name) {
  ir::Attributes attributes = {{"ranks", ranks}, {"tensor", true}};
  if (of_terms) attributes["of_terms"] = true;
  return b.emit(ir::Op::all_gather, {x}, name, std::move(whole), std::move(attributes));
}

namespace {

void all_gather_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> wholes, parts;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    wholes.push_back(*g.of(node.outputs[i]));
    parts.push_back(g.fresh(g.name_of(node.inputs[i]), g.shape(node.inputs[i])));
    if (g.value(node.inputs[i]).exact) g.exact(parts.back());
  }
  const bool of_terms = node.optional_flag("of_terms");
  g.emit_node(of_terms ? ir::Op::reduce_scatter : ir::Op::own_part, wholes, parts,
              {{"ranks", node.integer("ranks")}, {"tensor", true}});
  for (size_t i = 0; i < parts.size(); ++i) g.contribute(node.inputs[i], parts[i]);
}

// Each rank's part goes to all others.
Cost all_gather_cost(const ir::Graph& graph, const ir::Node& node) {
  const auto ranks = static_cast<double>(node.integer("ranks"));
  Cost cost;
  for (const ir::Use use : node.inputs) {
    const ir::Value& part = graph.value(use);
    cost.bytes += (ranks - 1) * static_cast<double>(element_count(part.shape)) *
                  static_cast<double>(size_of(part.dtype));
  }
  return cost;
}

// Inputs are the ranks' parts of one tensor.
void all_gather_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  auto to = out[0].data.begin();
  for (const Tensor64& part : in) to = std::ranges::copy(part.data, to).out;
}

}  // namespace

extern const OpInfo kAllGather{.op = ir::Op::all_gather,
                               .formula = "x = all ranks' parts",
                               .inputs = {"part"},
                               .outputs = {"x"},
                               .gradient = all_gather_gradient,
                               .cost = all_gather_cost,
                               .reference = all_gather_reference};

}  // namespace hydrac::ops
