// Matrices as Hopper's copy engine finds them: maps that kernels take as __grid_constant__ parameters.
#pragma once
#include <cstdint>

#include "cuda/tensor_map.h"
#include "cuda/types.cuh"

namespace hydrac::runtime::cuda {

// Rows * columns 16-bit numbers, row-major and dense, copied in boxes of box_rows * box_columns whose rows of
// 128 bytes are swizzled. Elements of a box outside of the matrix become zeros.
struct MatrixMap {
  std::int64_t rows = 0, columns = 0;
  int box_rows = 0, box_columns = 0;
};

enum class MatrixType { bf16, f16 };

// `matrix`: device memory, aligned to 16 bytes, at the same address whenever the map is used. RunError when
// the driver refuses.
TensorMap tensor_map(MatrixType type, const void* matrix, const MatrixMap& map);

inline TensorMap tensor_map(const bf16* matrix, const MatrixMap& map) {
  return tensor_map(MatrixType::bf16, matrix, map);
}
inline TensorMap tensor_map(const f16* matrix, const MatrixMap& map) {
  return tensor_map(MatrixType::f16, matrix, map);
}

}  // namespace hydrac::runtime::cuda
