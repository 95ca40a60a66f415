// Facts of a GPU for which launches are planned; kernels and the compiler share them. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac::cuda {

struct Chip {
  int capability;       // 10 * major + minor
  int multiprocessors;  // a chip with fewer computes the same, in more waves
};

inline constexpr Chip kHopper{90, 132};  // H100 SXM, H200

// Shared memory of a multiprocessor, in bytes (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability").
HYDRAC_FN constexpr std::int64_t shared_bytes_of_sm(int capability) {
  constexpr std::int64_t kib = 1024;
  if (capability < 80) return 64 * kib;
  if (capability == 80 || capability == 87) return 164 * kib;
  if (capability == 90 || capability == 100 || capability == 103 || capability == 110) return 228 * kib;
  return 100 * kib;
}

// The most that one block can have of it: from sm_80 on the system keeps 1 KiB of each block.
HYDRAC_FN constexpr std::int64_t shared_bytes_of_block(int capability) {
  return shared_bytes_of_sm(capability) - (capability < 80 ? 0 : 1024);
}

}  // namespace hydrac::cuda
