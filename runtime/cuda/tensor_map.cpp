#include "runtime/cuda/tensor_map.h"

#include <bit>

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {

TensorMap tensor_map(MatrixType type, const void* matrix, const MatrixMap& map) {
  abi::CUtensorMap encoded;
  const unsigned long long sizes[] = {static_cast<unsigned long long>(map.columns),
                                      static_cast<unsigned long long>(map.rows)};
  const unsigned long long row_bytes = sizes[0] * 2;
  const unsigned box[] = {static_cast<unsigned>(map.box_columns), static_cast<unsigned>(map.box_rows)};
  const unsigned every_element[] = {1, 1};
  check(driver().cuTensorMapEncodeTiled(
            &encoded, type == MatrixType::bf16 ? abi::kTensorMapBfloat16 : abi::kTensorMapFloat16, 2,
            const_cast<void*>(matrix), sizes, &row_bytes, box, every_element, abi::kTensorMapInterleaveNone,
            abi::kTensorMapSwizzle128, abi::kTensorMapPromoteL2To256, abi::kTensorMapFillZeros),
        "cuTensorMapEncodeTiled");
  return std::bit_cast<TensorMap>(encoded);
}

}  // namespace hydrac::runtime::cuda
