// The order in which the embedding's gradient takes a batch's tokens (templates/cuda/embedding_backward.cuh).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace hydrac::runtime::cuda {

class TokenOrder {
 public:
  // For ids in [0, vocabulary).
  explicit TokenOrder(std::int64_t vocabulary);

  // order[i] is the position of the i-th token by id; equal ids keep their order. Both have the same size.
  // O(tokens + vocabulary), allocates nothing; not thread-safe. RunError for an id outside the vocabulary.
  void sort(std::span<const std::int32_t> ids, std::span<std::int32_t> order);

 private:
  std::vector<std::int32_t> next_;  // of each id: first how many there are, then where its next position goes
};

}  // namespace hydrac::runtime::cuda
