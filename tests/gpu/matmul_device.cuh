// Launches the matmul kernel as generated programs do.
#pragma once
#include <cuda.h>

#include "cuda/matmul/geometry.h"
#include "cuda/matmul/matmul.cuh"
#include "device_array.cuh"

namespace hydrac::test {

// The driver's map of a matrix of 16-bit elements.
inline TensorMap encoded(const void* data, const cuda::MatmulMap& map, bool is_bf16) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
      "cuTensorMapEncodeTiled");
  const cuuint64_t size[] = {static_cast<cuuint64_t>(map.size[0]), static_cast<cuuint64_t>(map.size[1])};
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(map.row_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(map.box[0]), static_cast<cuuint32_t>(map.box[1])};
  const cuuint32_t steps[] = {1, 1};
  TensorMap result;
  const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      reinterpret_cast<CUtensorMap*>(&result),
      is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
      const_cast<void*>(data), size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", static_cast<int>(status));
    std::exit(3);
  }
  return result;
}

// Once, before a kernel is launched so.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), const cuda::MatmulLaunch& launch) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(launch.shared_bytes)),
        "cudaFuncSetAttribute");
}

// Any kernel that is laid out so. `behind_kernel`: it may begin before the kernel before it ends.
template <class... Parameters, class... Arguments>
void launch_matmul(void (*kernel)(Parameters...), const cuda::MatmulLaunch& launch, cudaStream_t stream,
                   bool behind_kernel, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (launch.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(launch.cluster), 1, 1};
  }
  if (behind_kernel) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.grid);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch");
}

// `Family` says which template of matmuls it is, for one problem:
//   static constexpr cuda::MatmulProblem problem;
//   static constexpr cuda::MatmulLaunch launch;
//   static constexpr std::int64_t sums_rows;              // of the workspace of each column sum
//   static constexpr cuda::MatmulMap map_a, map_b;
//   template <class Storage> using Config;
//   template <class Config, class Epilogue> static __device__ void run(a, b, rows, epilogue);
template <class Family, class Config, class Epilogue>
__global__ void __launch_bounds__(Family::launch.threads, 1)
    family_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, std::int64_t rows,
                  Epilogue given) {
  Epilogue epilogue = given;
  Family::template run<Config>(a, b, rows, epilogue);
}

// A launch of one problem, which can be repeated; `behind_kernel`: it may begin before the kernel before it
// ends.
template <class Storage, class Family, class Epilogue>
class FamilyKernel {
 public:
  FamilyKernel(const Storage* a, const Storage* b, const Epilogue& epilogue)
      : a_(encoded(a, Family::map_a, Family::problem.is_bf16)),
        b_(encoded(b, Family::map_b, Family::problem.is_bf16)),
        epilogue_(epilogue) {
    static_assert(Family::problem.is_bf16 == __is_same(Storage, bf16) &&
                  Family::problem.sums == Epilogue::sums);
    allow_shared_memory(kKernel, Family::launch);
  }

  void operator()(cudaStream_t stream = nullptr, bool behind_kernel = false) const {
    launch_matmul(kKernel, Family::launch, stream, behind_kernel, a_, b_, Family::problem.m, epilogue_);
  }

  static constexpr cuda::MatmulLaunch kLaunch = Family::launch;
  static constexpr std::int64_t kSumsRows = Family::sums_rows;

 private:
  static constexpr auto kKernel = family_kernel<Family, typename Family::template Config<Storage>, Epilogue>;

  TensorMap a_, b_;
  Epilogue epilogue_;
};

// Large matmuls.
template <cuda::MatmulProblem p>
struct MatmulFamily {
  static constexpr cuda::MatmulProblem problem = p;
  static constexpr cuda::MatmulLaunch launch = cuda::matmul_launch(p);
  static constexpr std::int64_t sums_rows = cuda::matmul_sums_rows(p);
  static constexpr cuda::MatmulMap map_a = cuda::matmul_map_a(p), map_b = cuda::matmul_map_b(p);
  template <class Storage>
  using Config = cuda::MatmulConfig<Storage, p.n, p.k, p.b_transposed, p.paired, cuda::matmul_tile(p)>;
  template <class Config, class Epilogue>
  static __device__ void run(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
    cuda::matmul<Config>(a, b, rows, epilogue);
  }
};

template <class Storage, cuda::MatmulProblem problem, class Epilogue>
using MatmulKernel = FamilyKernel<Storage, MatmulFamily<problem>, Epilogue>;

}  // namespace hydrac::test
