// Writes batches into a program's memory and reads its results. `bytes` are where the host reads and writes
// them: in the arena or in memory that is copied there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/program/layout.h"

namespace hydrac::runtime {

// Tokens for a rank that has a part of the vocabulary: the row within its owner's part, and 1 if the owner is
// this rank.
struct OwnIds {
  std::vector<int32_t> rows;
  std::vector<float> are_own;
};
OwnIds own_ids(const InputPlaces& places, std::span<const int32_t> ids);

// Writes a batch and inv_count to `inputs`, which stands for the arena's first input_bytes. The caller writes
// token_order and position_order. std::logic_error if the batch and the program differ in size.
void fill_inputs(const InputPlaces& places, const Batch& batch, float inv_count, std::byte* inputs);

// The scalars of an optimizer step, from `bytes` that stand for the arena from byte `first` on.
StepResult step_result(const ProgramLayout& layout, const std::byte* bytes, int64_t first = 0);

// The bytes of the arena that step_result() reads.
struct ByteRange {
  int64_t first = 0, last = 0;  // [first, last)
};
ByteRange step_result_range(const ProgramLayout& layout);

}  // namespace hydrac::runtime
