// C identifiers for the tensors of a kernel: their names in its formula or else in the model, made unique.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hydrac::codegen {

std::string identifier(const std::string& name);  // "d_attn.qkv" -> "d_attn_qkv"

// One name for each operand of the node's body; empty for operands that are not used.
std::vector<std::string> operand_names(const ir::Graph& graph, const ir::Node& node);

}  // namespace hydrac::codegen
