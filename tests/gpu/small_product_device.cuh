// Launches the kernel for small products as generated programs do.
#pragma once
#include "cuda/small_product/small_product.cuh"
#include "product_device.cuh"

namespace hydrac::test {

template <cuda::ProductProblem p, cuda::SmallProductTile tile>
struct SmallProductFamily {
  static constexpr cuda::ProductProblem problem = p;
  static constexpr cuda::ProductLaunch launch = cuda::small_product_launch(p, tile);
  static constexpr std::int64_t sums_rows = cuda::small_product_sums_rows(p);
  static constexpr cuda::ProductMap map_a = cuda::small_product_map_a(p),
                                    map_b = cuda::small_product_map_b(p);
  template <class Storage>
  using Config = cuda::SmallProductConfig<Storage, p.n, p.k, p.b_transposed, tile>;
  template <class Config, class Epilogue>
  static __device__ void run(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
    cuda::small_product<Config>(a, b, rows, epilogue);
  }
};

template <class Storage, cuda::ProductProblem problem, cuda::SmallProductTile tile, class Epilogue>
using SmallProductKernel = FamilyKernel<Storage, SmallProductFamily<problem, tile>, Epilogue>;

}  // namespace hydrac::test
