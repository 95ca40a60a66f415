// Launches the kernel for small matmuls as generated programs do.
#pragma once
#include "cuda/small_matmul/small_matmul.cuh"
#include "matmul_device.cuh"

namespace hydrac::test {

template <cuda::MatmulProblem p, cuda::SmallMatmulTile tile>
struct SmallMatmulFamily {
  static constexpr cuda::MatmulProblem problem = p;
  static constexpr cuda::MatmulLaunch launch = cuda::small_matmul_launch(p, tile);
  static constexpr std::int64_t sums_rows = cuda::small_matmul_sums_rows(p);
  static constexpr cuda::MatmulMap map_a = cuda::small_matmul_map_a(p), map_b = cuda::small_matmul_map_b(p);
  template <class Storage>
  using Config = cuda::SmallMatmulConfig<Storage, p.n, p.k, p.b_transposed, tile>;
  template <class Config, class Epilogue>
  static __device__ void run(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
    cuda::small_matmul<Config>(a, b, rows, epilogue);
  }
};

template <class Storage, cuda::MatmulProblem problem, cuda::SmallMatmulTile tile, class Epilogue>
using SmallMatmulKernel = FamilyKernel<Storage, SmallMatmulFamily<problem, tile>, Epilogue>;

}  // namespace hydrac::test
