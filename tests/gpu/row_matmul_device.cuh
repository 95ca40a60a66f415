// Launches the kernel for matmuls whose epilogue sees whole rows as generated programs do.
#pragma once
#include "cuda/row_matmul/row_matmul.cuh"
#include "matmul_device.cuh"

namespace hydrac::test {

template <cuda::MatmulProblem p, cuda::RowMatmulTile tile>
struct RowMatmulFamily {
  static constexpr cuda::MatmulProblem problem = p;
  static constexpr cuda::MatmulLaunch launch = cuda::row_matmul_launch(p, tile);
  static constexpr std::int64_t sums_rows = cuda::row_matmul_sums_rows(p, tile);
  static constexpr cuda::MatmulMap map_a = cuda::row_matmul_map_a(p, tile), map_b = cuda::row_matmul_map_b(p);
  template <class Storage>
  using Config = cuda::RowMatmulConfig<Storage, p.n, p.k, p.b_transposed, tile>;
  template <class Config, class Epilogue>
  static __device__ void run(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
    cuda::row_matmul<Config>(a, b, rows, epilogue);
  }
};

template <class Storage, cuda::MatmulProblem problem, cuda::RowMatmulTile tile, class Epilogue>
using RowMatmulKernel = FamilyKernel<Storage, RowMatmulFamily<problem, tile>, Epilogue>;

}  // namespace hydrac::test
