// A tensor map of the CUDA driver (CUtensorMap): describes a matrix in global memory to TMA. Opaque; the host
// encodes it and a kernel takes it as a `const __grid_constant__` parameter. Plain C++; no CUDA.
#pragma once
#include <cstdint>

namespace hydrac {

struct alignas(64) TensorMap {
  std::uint64_t words[16];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace hydrac
