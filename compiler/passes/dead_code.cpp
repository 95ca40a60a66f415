#include <fmt/format.h>

#include <algorithm>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

// Values that are read, also through views: reading a part keeps the whole, and reading the whole keeps every
// part.
std::set<ir::ValueId> read_storages(const ir::Graph& graph) {
  std::set<ir::ValueId> read;
  for_each_use(graph, [&](const ir::Region&, const ir::Node&, ir::Use use, bool is_output) {
    if (!is_output) read.insert(storage_of(graph, use.value));
  });
  return read;
}

bool is_activation(const ir::Graph& graph, ir::ValueId id) {
  return graph.value(id).role == ir::Role::activation;
}

// Removes outputs `dead` of a fused node; at least one stays.
void drop_outputs(ir::Node& node, const std::vector<bool>& dead) {
  ir::Body body = *node.body;
  std::erase_if(body.stores,
                [&](const ir::Store& store) { return dead[body.operands[store.operand].output]; });
  std::vector<int> renumbered(node.outputs.size(), -1);
  std::vector<ir::Use> outputs;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (dead[o]) continue;
    renumbered[o] = static_cast<int>(outputs.size());
    outputs.push_back(node.outputs[o]);
  }
  for (ir::Operand& operand : body.operands) {
    if (operand.output >= 0) operand.output = renumbered[operand.output];
  }
  node.outputs = std::move(outputs);
  node.body = std::make_shared<const ir::Body>(std::move(body));
}

}  // namespace

std::set<ir::ValueId> statistics(const ir::Graph& graph) {
  std::set<ir::ValueId> result;
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op == ir::Op::fused || !ops::op_info(node.op).stores_statistics) continue;
        for (size_t o = 1; o < node.outputs.size(); ++o) result.insert(node.outputs[o].value);
      }
    }
  }
  return result;
}

void remove_dead(ir::Graph& graph, const Kept& kept, Log& log) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::set<ir::ValueId> read = read_storages(graph);
    auto is_dead = [&](ir::Use use) {
      const ir::ValueId storage = storage_of(graph, use.value);
      return is_activation(graph, storage) && !read.contains(storage) && !kept.by_host.contains(storage);
    };
    for (ir::Function& function : graph.functions) {
      for (ir::Region& region : function.regions) {
        std::erase_if(region.nodes, [&](ir::Node& node) {
          const bool all_dead = std::ranges::all_of(node.outputs, is_dead);
          if (all_dead) {
            log.push_back(
                {"dead code", fmt::format("{}.{}: {}", function.name, region.name, to_text(graph, node))});
            changed = true;
            return true;
          }
          if (node.op != ir::Op::fused) return false;
          std::vector<bool> dead;
          for (ir::Use output : node.outputs)
            dead.push_back(is_dead(output) && !kept.statistics.contains(output.value));
          if (std::ranges::count(dead, true) == 0) return false;
          drop_outputs(node, dead);
          return false;
        });
      }
    }
  }
}

}  // namespace hydrac::passes
