// Numbers for what is measured.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

// Fills device memory with magnitudes from 1/4 to 1 with random mantissas and signs: zeros and repeated
// values would let multipliers idle and the GPU run faster than in a real step. It is done when the stream
// gets there.
void fill_random(std::byte* device, std::int64_t bytes, ElementType type, const Stream& stream);

}  // namespace hydrac::runtime::cuda
