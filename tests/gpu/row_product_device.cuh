// Launches the kernel for products whose epilogue sees whole rows as generated programs do.
#pragma once
#include "cuda/row_product/row_product.cuh"
#include "product_device.cuh"

namespace hydrac::test {

template <cuda::ProductProblem p, cuda::RowProductTile tile>
struct RowProductFamily {
  static constexpr cuda::ProductProblem problem = p;
  static constexpr cuda::ProductLaunch launch = cuda::row_product_launch(p, tile);
  static constexpr std::int64_t sums_rows = cuda::row_product_sums_rows(p, tile);
  static constexpr cuda::ProductMap map_a = cuda::row_product_map_a(p, tile),
                                    map_b = cuda::row_product_map_b(p);
  template <class Storage>
  using Config = cuda::RowProductConfig<Storage, p.n, p.k, p.b_transposed, tile>;
  template <class Config, class Epilogue>
  static __device__ void run(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
    cuda::row_product<Config>(a, b, rows, epilogue);
  }
};

template <class Storage, cuda::ProductProblem problem, cuda::RowProductTile tile, class Epilogue>
using RowProductKernel = FamilyKernel<Storage, RowProductFamily<problem, tile>, Epilogue>;

}  // namespace hydrac::test
