// Launches the kernel for small products as generated programs do.
#pragma once
#include "cuda/small_product/small_product.cuh"
#include "product_device.cuh"

namespace hydrac::test {

template <class Config, class Epilogue>
__global__ void __launch_bounds__(Config::tile.threads(), 1)
    small_product_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                         std::int64_t rows, Epilogue given) {
  Epilogue epilogue = given;
  cuda::small_product<Config>(a, b, rows, epilogue);
}

// A launch of one problem, which can be repeated; `behind_kernel`: it may begin before the kernel before it
// ends.
template <class Storage, cuda::ProductProblem problem, cuda::SmallProductTile tile, class Epilogue>
class SmallProductKernel {
 public:
  SmallProductKernel(const Storage* a, const Storage* b, const Epilogue& epilogue)
      : a_(encoded(a, cuda::small_product_map_a(problem), problem.is_bf16)),
        b_(encoded(b, cuda::small_product_map_b(problem), problem.is_bf16)),
        epilogue_(epilogue) {
    static_assert(problem.is_bf16 == __is_same(Storage, bf16) && problem.sums == Epilogue::sums);
    allow_shared_memory(kKernel, kLaunch);
  }

  void operator()(cudaStream_t stream = nullptr, bool behind_kernel = false) const {
    launch_product(kKernel, kLaunch, stream, behind_kernel, a_, b_, problem.m, epilogue_);
  }

  static constexpr cuda::ProductLaunch kLaunch = cuda::small_product_launch(problem, tile);
  static constexpr std::int64_t kSumsRows = cuda::small_product_sums_rows(problem);

 private:
  using Config = cuda::SmallProductConfig<Storage, problem.n, problem.k, problem.b_transposed, tile>;
  static constexpr auto kKernel = small_product_kernel<Config, Epilogue>;

  TensorMap a_, b_;
  Epilogue epilogue_;
};

}  // namespace hydrac::test
