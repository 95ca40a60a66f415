// Parameters and batches for a graph of which only the shapes are known.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "oracle/job/graph.h"

namespace hydrac::oracle {

class RandomData {
 public:
  // Learns from the graph's nodes what each value is for. Throws JobError when an integer input is neither
  // looked up in a table, nor a target, nor a step counter, so that its range is unknown. `graph` must
  // outlive this object.
  RandomData(const Graph& graph, int accumulation);

  // Weights from N(0, 0.02), norm weights 1, biases 0, as GPT-2 begins.
  at::Tensor parameter(int value) const;

  // A fresh tensor for input `value`: tokens, targets, features, the step counter, or what the mean loss
  // divides by.
  at::Tensor input(int value, int step) const;

  // Positions in a micro-batch: batch x sequence length.
  std::int64_t positions() const;

 private:
  enum class Use { unused, indices, features, step_counter, inverse_count, bias, documents, positions };
  struct Purpose {
    Use use = Use::unused;
    std::int64_t range = 0;  // indices: how many there are; inverse_count: how many rows
  };
  void learn(const Node& node);
  void note(const Node& node, std::size_t input, Use use, std::int64_t range = 0);
  const std::vector<std::int64_t>& shape(const Node& node, std::size_t input) const;

  const Graph& graph_;
  int accumulation_;
  std::vector<Purpose> purposes_;  // of each value
};

}  // namespace hydrac::oracle
