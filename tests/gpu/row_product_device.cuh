// Launches the kernel for products whose epilogue sees whole rows as generated programs do.
#pragma once
#include "cuda/row_product/row_product.cuh"
#include "product_device.cuh"

namespace hydrac::test {

template <class Config, class Epilogue>
__global__ void __launch_bounds__(Config::tile.threads(), 1)
    row_product_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                       std::int64_t rows, Epilogue given) {
  Epilogue epilogue = given;
  cuda::row_product<Config>(a, b, rows, epilogue);
}

// A launch of one problem, which can be repeated; `behind_kernel`: it may begin before the kernel before it
// ends.
template <class Storage, cuda::ProductProblem problem, cuda::RowProductTile tile, class Epilogue>
class RowProductKernel {
 public:
  RowProductKernel(const Storage* a, const Storage* b, const Epilogue& epilogue)
      : a_(encoded(a, cuda::row_product_map_a(problem, tile), problem.is_bf16)),
        b_(encoded(b, cuda::row_product_map_b(problem), problem.is_bf16)),
        epilogue_(epilogue) {
    static_assert(problem.is_bf16 == __is_same(Storage, bf16) && problem.sums == Epilogue::sums);
    allow_shared_memory(kKernel, kLaunch);
  }

  void operator()(cudaStream_t stream = nullptr, bool behind_kernel = false) const {
    launch_product(kKernel, kLaunch, stream, behind_kernel, a_, b_, problem.m, epilogue_);
  }

  static constexpr cuda::ProductLaunch kLaunch = cuda::row_product_launch(problem, tile);
  static constexpr std::int64_t kSumsRows = cuda::row_product_sums_rows(problem, tile);

 private:
  using Config = cuda::RowProductConfig<Storage, problem.n, problem.k, problem.b_transposed, tile>;
  static constexpr auto kKernel = row_product_kernel<Config, Epilogue>;

  TensorMap a_, b_;
  Epilogue epilogue_;
};

}  // namespace hydrac::test
