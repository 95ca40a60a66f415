// An activation's gradient needs its derivative alone, which costs little where the activation is computed.
// So the forward pass leaves the derivative instead of what the activation was computed from, and the
// backward pass, whose kernels have less to hide such work behind, only multiplies.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ops/shapes.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;

int readers_of(const ir::Graph& graph, ir::ValueId value) {
  int readers = 0;
  for_each_use(graph, [&](const Region&, const Node&, Use use, bool is_output) {
    readers += use.value == value && !is_output;
  });
  return readers;
}

// The forward nodes among which one computes the activation of `x`, and that one's position; nothing where
// there is none.
struct Place {
  std::vector<Node>* nodes = nullptr;
  std::ptrdiff_t position = 0;
};

std::optional<Place> activation_of(ir::Function& function, Use x) {
  for (Region& region : function.regions) {
    const auto found = std::ranges::find_if(region.nodes, [&](const Node& node) {
      return !region.backward && node.op == "activation" && node.inputs[0] == x;
    });
    if (found != region.nodes.end()) return Place{&region.nodes, found - region.nodes.begin()};
  }
  return std::nullopt;
}

// Whether the matmul whose result is `x` becomes one kernel with pointwise work behind it.
bool is_fused(const ir::Graph& graph, const std::vector<Node>& nodes, Use x, const FusedMatmuls& options) {
  const auto matmul = std::ranges::find_if(
      nodes, [&](const Node& node) { return node.op == "linear" && node.outputs[0] == x; });
  if (matmul == nodes.end()) return false;
  const ir::Shape &a = graph.value(matmul->inputs[0]).shape, &y = graph.value(x).shape;
  return joins_pointwise({element_count(ops::leading(y)), y.back().size, a.back().size}, options);
}

}  // namespace

void save_derivatives(ir::Graph& graph, const FusedMatmuls& options, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (Region& region : function.regions) {
      for (size_t n = 0; n < region.nodes.size(); ++n) {
        if (!region.backward || region.nodes[n].op != "activation_derivative") continue;
        const Node derivative = region.nodes[n];
        const Use x = derivative.inputs[0];
        const std::optional<Place> forward = activation_of(function, x);
        const bool are_alone = readers_of(graph, x.value) == 2;  // the activation and its derivative
        if (!forward || !are_alone || !is_fused(graph, *forward->nodes, x, options)) continue;
        region.nodes.erase(region.nodes.begin() + static_cast<std::ptrdiff_t>(n--));
        forward->nodes->insert(forward->nodes->begin() + forward->position + 1, derivative);
        log.push_back({"derivatives", fmt::format("{}.{}: {} is saved by the forward pass", function.name,
                                                  region.name, graph.value(derivative.outputs[0]).name)});
      }
    }
  }
}

}  // namespace hydrac::passes
