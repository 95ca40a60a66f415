// The arguments of a called operation, and the table of operations.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oracle/aten/fp8.h"
#include "oracle/job/graph.h"

namespace hydrac::oracle {

// reference: written from the definition, dropout masks bit for bit those of the project's generator.
// training:  what a good PyTorch program calls, dropout from LibTorch's own generator.
enum class Mode { reference, training };

// How autocast treats an operation: what its inputs and its result are rounded to.
enum class Casting {
  widest,   // inputs as they come; the result in the widest type among them
  narrow,   // inputs and result to the 16-bit type: matmuls
  float32,  // inputs and result to float32: what loses too much otherwise
};

// Tensors that depend on a node's attributes and shapes alone (rotation tables, masks), made at its first
// call.
using Tables = std::map<const Node*, std::vector<at::Tensor>>;

// Tokens that routers chose from among, and those of them that would have been chosen otherwise here.
struct Choices {
  std::int64_t tokens = 0, differing = 0;
};

struct OpCall {
  const Node& node;
  const Graph& graph;
  Mode mode;
  std::uint32_t seed;
  int layer;  // 0 outside of loops
  const std::vector<at::Tensor>& inputs;
  Tables& tables;
  std::optional<at::ScalarType> autocast;  // the 16-bit type to compute with; inputs are float32 numbers
  Fp8Scales* fp8 = nullptr;                // under autocast
  Choices* choices = nullptr;

  // Throws JobError when input i was left out or the job has no tensor for it.
  const at::Tensor& input(std::size_t i) const;
  at::Tensor optional_input(std::size_t i) const;  // undefined when it was left out, or not stated
  double attr(const std::string& name) const;      // throws JobError when the node has none
  double attr(const std::string& name, double fallback) const;
  const std::vector<std::int64_t>& output_shape() const { return graph.values[node.output.value].shape; }
};

using OpFunction = at::Tensor (*)(const OpCall&);

struct OpDefinition {
  const char* name;
  std::size_t inputs;                 // how many a node states at least, left-out ones included
  std::vector<const char*> required;  // attributes
  std::vector<const char*> optional;
  OpFunction function;
  Casting casting = Casting::widest;
  std::size_t more_inputs = 0;  // how many may follow: positions, documents
};

// The definition of `node`'s operation. Throws JobError for an unknown operation or attribute, a missing
// attribute, and a wrong number of inputs.
const OpDefinition& find_op(const Node& node);

// Attention and rotary embeddings have files of their own.
at::Tensor attention(const OpCall& call);
at::Tensor rope(const OpCall& call);

// So has what compressed attention does before.
at::Tensor causal_conv(const OpCall& call);
at::Tensor value_shift(const OpCall& call);
at::Tensor block_diagonal(const OpCall& call);
at::Tensor head_sum(const OpCall& call);
at::Tensor scale_heads(const OpCall& call);
at::Tensor l2norm(const OpCall& call);

// So have distances of vectors.
at::Tensor pairwise_cosine_distance(const OpCall& call);

// So have pairs of texts.
at::Tensor pair_sum(const OpCall& call);
at::Tensor pair_tokens(const OpCall& call);
at::Tensor dpo(const OpCall& call);
at::Tensor ipo(const OpCall& call);
at::Tensor simpo(const OpCall& call);
at::Tensor orpo(const OpCall& call);
at::Tensor apo_zero(const OpCall& call);
at::Tensor apo_down(const OpCall& call);

// So have low-rank adapters.
at::Tensor adapter_matrix(const OpCall& call);

// So have mixtures of recursions.
at::Tensor recursion_depth(const OpCall& call);
at::Tensor recursion_weight(const OpCall& call);
at::Tensor masked_add(const OpCall& call);
at::Tensor straight_through(const OpCall& call);
at::Tensor recursion_loss(const OpCall& call);

// So has what chooses tokens.
at::Tensor choose_tokens(const OpCall& call);
at::Tensor chosen_tokens(const OpCall& call);
at::Tensor take_tokens(const OpCall& call);
at::Tensor spread_tokens(const OpCall& call);
at::Tensor gate_rows(const OpCall& call);
at::Tensor choice_loss(const OpCall& call);

// So has what chooses experts.
at::Tensor router_scores(const OpCall& call);
at::Tensor choose_experts(const OpCall& call);
at::Tensor expert_weights(const OpCall& call);
at::Tensor expert_inputs(const OpCall& call);
at::Tensor grouped_matmul(const OpCall& call);
at::Tensor combined_rows(const OpCall& call);
at::Tensor router_loss(const OpCall& call);

// So have users' functions: of one tensor, of the two halves of one, of predictions and targets.
at::Tensor function_activation(const OpCall& call);
at::Tensor function_gated(const OpCall& call);
at::Tensor function_loss(const OpCall& call);

// The multiplier of every element of a tensor of `shape` under dropout with probability p: 0 or 1 / (1 - p).
// Input `step_input` of the call is the step counter. `random_index` gives the index that random bits are
// asked for from the element's number.
at::Tensor dropout_multiplier(const OpCall& call, at::IntArrayRef shape, double p, std::size_t step_input,
                              const at::TensorOptions& options,
                              const std::function<std::uint64_t(std::int64_t)>& random_index);

}  // namespace hydrac::oracle
