// The matmuls of a lowered model that are kernels of ours.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "../core/interpreter.h"
#include "gpu_model.h"
#include "ir/graph.h"
#include "passes/passes.h"

namespace hydrac::test {

inline constexpr passes::FusedMatmuls kWhereverPossible{.chip = cuda::kHopper, .wherever_possible = true};

// A model that is small in every way, and one whose matmuls are of one tile a block.
inline constexpr const char* kGpt2 =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 72, vocab_size: 517, "
    "norm: layernorm, position: learned, hidden_act: gelu_tanh";
inline constexpr const char* kTiny =
    "hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 1024, vocab_size: "
    "256, norm: layernorm, position: learned, hidden_act: gelu_tanh";
inline constexpr const char* kTinyTrain = "sequence_len: 64, micro_batch_size: 32";

struct FusedNode {
  const ir::Node* node;
  int layer;
};

ir::Use add_value(ir::Graph& graph, const std::string& name, const ir::Shape& shape, ir::DType dtype,
                  ir::Role role);

// Each epilogue once.
std::vector<FusedNode> fused_matmuls(const ir::Graph& graph);

std::string name_of(const ir::Node& node);

// The names of the nodes with a body, the ops of the others.
using Names = std::vector<std::string>;
Names nodes_of(const ir::Graph& graph, const std::string& function, const std::string& region);

// Throws logic_error where the function has none.
const ir::Node& node_named(const ir::Graph& graph, const std::string& function, const std::string& name);

// The gradients that a micro-step leaves, by name and slot, interpreted in float64, where nothing is rounded
// but inside kernels. What the step reads depends on tensors' names alone: graphs differ in their
// activations.
std::map<std::string, std::vector<double>> gradients_of(const GpuModel& model);

// Runs a node's kernels beside its definition. A sum that rounds the other way moves what is computed from it
// by a step of a 16-bit type. One line a difference.
std::vector<std::string> differences(const ir::Graph& graph, Interpreter& state, const ir::Node& node,
                                     int layer);

}  // namespace hydrac::test
