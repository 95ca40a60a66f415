// Launches the kernel of matmuls with b in shared memory as generated programs do.
#pragma once
#include <initializer_list>

#include "cuda/stationary_matmul/stationary_matmul.cuh"
#include "matmul_device.cuh"

namespace hydrac::test {

// Of an epilogue's matrices.
struct MatrixMaps {
  TensorMap at[2];
};

template <class Config, class Epilogue>
__global__ void __launch_bounds__(cuda::StationaryTile::threads, 1)
    stationary_matmul_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                             const __grid_constant__ MatrixMaps matrices, std::int64_t rows, Epilogue given) {
  Epilogue epilogue = given;
#pragma unroll
  for (int i = 0; i < Epilogue::outputs; ++i) epilogue.matrices[i] = &matrices.at[i];
  cuda::stationary_matmul<Config>(a, b, rows, epilogue);
}

// A launch of one problem, which can be repeated; `behind_kernel`: it may begin before the kernel before it
// ends. `matrices`: what the epilogue writes.
template <class Storage, cuda::MatmulProblem problem, class Epilogue>
class StationaryMatmulKernel {
 public:
  StationaryMatmulKernel(const Storage* a, const Storage* b, const Epilogue& epilogue,
                         std::initializer_list<const Storage*> matrices)
      : a_(encoded(a, cuda::stationary_map_a(problem), problem.is_bf16)),
        b_(encoded(b, cuda::stationary_map_b(problem), problem.is_bf16)),
        epilogue_(epilogue) {
    static_assert(problem.is_bf16 == __is_same(Storage, bf16) && problem.matrices == Epilogue::outputs &&
                  cuda::stationary_matmul_supports(problem));
    int count = 0;
    for (const Storage* matrix : matrices)
      matrices_.at[count++] = encoded(matrix, cuda::stationary_map_matrix(problem), problem.is_bf16);
    allow_shared_memory(kKernel, kLaunch);
  }

  void operator()(cudaStream_t stream = nullptr, bool behind_kernel = false) const {
    launch_matmul(kKernel, kLaunch, stream, behind_kernel, a_, b_, matrices_, problem.m, epilogue_);
  }

 private:
  using Config = cuda::StationaryConfig<Storage, problem.n, problem.k, problem.b_transposed,
                                        cuda::stationary_tile(problem)>;
  static constexpr cuda::MatmulLaunch kLaunch = cuda::stationary_launch(problem);
  static constexpr auto kKernel = stationary_matmul_kernel<Config, Epilogue>;

  TensorMap a_, b_;
  MatrixMaps matrices_{};
  Epilogue epilogue_;
};

}  // namespace hydrac::test
