#include "specialize/specialize.h"

namespace hydrac::specialize {

std::vector<std::string> library_headers() {
  return {"cpu/random_row.h",
          "cpu/tile.h",
          "cuda/attention/arguments.h",
          "cuda/attention/block.h",
          "cuda/attention/column_terms.cuh",
          "cuda/attention/dropout.cuh",
          "cuda/attention/fp8_rounding.cuh",
          "cuda/attention/fp8_softmax.cuh",
          "cuda/attention/fp8_tiles.h",
          "cuda/attention/fragment.cuh",
          "cuda/attention/gradient_geometry.h",
          "cuda/attention/gradient_shared.cuh",
          "cuda/attention/gradient_workspace.cuh",
          "cuda/attention/matmul.cuh",
          "cuda/attention/matmul_mma.cuh",
          "cuda/attention/matmul_plain.cuh",
          "cuda/attention/matmul_wgmma.cuh",
          "cuda/attention/rounded_fragment.cuh",
          "cuda/attention/row_terms.cuh",
          "cuda/attention/rows.cuh",
          "cuda/attention/softmax.cuh",
          "cuda/attention/stream.cuh",
          "cuda/attention/token_sums.cuh",
          "cuda/barrier.cuh",
          "cuda/previous_kernel.cuh",
          "cuda/ptx.cuh",
          "cuda/reduce.cuh",
          "cuda/tensor_copy.cuh",
          "cuda/tensor_map.h",
          "cuda/types.cuh",
          "cuda/vector.cuh",
          "cuda/wgmma.cuh",
          "hydrac/dynamic_code.h",
          "hydrac/math.h",
          "hydrac/nf4.h",
          "hydrac/random.h"};
}

}  // namespace hydrac::specialize
