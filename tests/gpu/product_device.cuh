// Launches the product kernel as generated programs do.
#pragma once
#include <cuda.h>

#include "cuda/product/product.cuh"
#include "device_array.cuh"

namespace hydrac::test {

// The driver's map of a matrix of 16-bit elements.
inline cuda::TensorMap encoded(const void* data, const cuda::ProductMap& map, bool is_bf16) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  const cuuint64_t size[] = {static_cast<cuuint64_t>(map.size[0]), static_cast<cuuint64_t>(map.size[1])};
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(map.row_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(map.box[0]), static_cast<cuuint32_t>(map.box[1])};
  const cuuint32_t steps[] = {1, 1};
  cuda::TensorMap result;
  const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      reinterpret_cast<CUtensorMap*>(&result),
      is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<void*>(data),
      size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", static_cast<int>(status));
    std::exit(3);
  }
  return result;
}

template <class Config, class Epilogue>
__global__ void __launch_bounds__(cuda::ProductTile::threads, 1)
    product_kernel(const __grid_constant__ cuda::TensorMap a, const __grid_constant__ cuda::TensorMap b,
                   std::int64_t rows, Epilogue given) {
  Epilogue epilogue = given;
  cuda::product<Config>(a, b, rows, epilogue);
}

// The products of one layout and size.
template <class Storage, std::int64_t n, std::int64_t k, bool b_transposed, bool paired>
struct Product {
  static constexpr bool bf16_storage = __is_same(Storage, bf16);

  static constexpr cuda::ProductProblem problem(std::int64_t m, int sums) {
    return {90, bf16_storage, b_transposed, m, n, k, paired, sums};
  }

  // A launch that can be repeated.
  template <class Epilogue>
  class Launch {
   public:
    Launch(const Storage* a, const Storage* b, std::int64_t m, const Epilogue& epilogue)
        : a_(encoded(a, cuda::product_map_a(problem(m, Epilogue::sums)), bf16_storage)),
          b_(encoded(b, cuda::product_map_b(problem(m, Epilogue::sums)), bf16_storage)),
          rows_(m),
          launch_(cuda::product_launch(problem(m, Epilogue::sums))),
          epilogue_(epilogue) {
      check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(launch_.shared_bytes)),
            "cudaFuncSetAttribute");
    }

    void operator()() const {
      cudaLaunchAttribute cluster;
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {static_cast<unsigned>(launch_.cluster), 1, 1};
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(launch_.grid);
      config.blockDim = dim3(launch_.threads);
      config.dynamicSmemBytes = launch_.shared_bytes;
      config.attrs = &cluster;
      config.numAttrs = 1;
      check(cudaLaunchKernelEx(&config, kKernel, a_, b_, rows_, epilogue_), "launch");
    }

   private:
    using Config = cuda::ProductConfig<Storage, n, k, b_transposed, paired, cuda::product_tile(problem(1, 0))>;
    static constexpr auto kKernel = product_kernel<Config, Epilogue>;

    cuda::TensorMap a_, b_;
    std::int64_t rows_;
    cuda::ProductLaunch launch_;
    Epilogue epilogue_;
  };
};

}  // namespace hydrac::test
