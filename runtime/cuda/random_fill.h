// Random data for measurements.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/gemm/gemm.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

// Fills device memory with magnitudes from 1/4 to 1 with random mantissas and signs: with zeros and repeated
// values multipliers would idle, and the GPU would run faster than in a real step. In stream order.
void fill_random(std::byte* device, std::int64_t bytes, ElementType type, const Stream& stream);

}  // namespace hydrac::runtime::cuda
