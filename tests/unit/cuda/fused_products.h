// The products of a lowered model that are kernels of ours.
#pragma once
#include <string>
#include <vector>

#include "../core/interpreter.h"
#include "ir/graph.h"

namespace hydrac::test {

struct FusedNode {
  const ir::Node* node;
  int layer;
};

// Each epilogue once.
std::vector<FusedNode> fused_products(const ir::Graph& graph);

std::string name_of(const ir::Node& node);

// The names of the nodes with a body, the ops of the others.
using Names = std::vector<std::string>;
Names nodes_of(const ir::Graph& graph, const std::string& function, const std::string& region);

// Throws logic_error where the function has none.
const ir::Node& node_named(const ir::Graph& graph, const std::string& function, const std::string& name);

// Runs a node's kernels beside its definition. A sum that rounds the other way moves what is computed from it
// by a step of a 16-bit type. One line a difference.
std::vector<std::string> differences(const ir::Graph& graph, Interpreter& state, const ir::Node& node,
                                     int layer);

}  // namespace hydrac::test
