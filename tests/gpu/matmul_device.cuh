// Launches matmul kernels as generated programs do.
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
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(map.size[0] * 2)};
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

template <class Config, class Epilogue>
__global__ void __launch_bounds__(Config::tile.threads(), 1)
    matmul_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, std::int64_t rows,
                  Epilogue given) {
  Epilogue epilogue = given;
  cuda::matmul<Config>(a, b, rows, epilogue);
}

template <class Config, class Epilogue>
__global__ void __launch_bounds__(Config::tile.threads(), 1)
    tail_matmul_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                       const __grid_constant__ TensorMap tail_a, const __grid_constant__ TensorMap tail_b,
                       std::int64_t rows, Epilogue given) {
  Epilogue epilogue = given;
  cuda::matmul<Config>(a, b, tail_a, tail_b, rows, epilogue);
}

// A launch of one problem on tiles of one kind, which can be repeated; `behind_kernel`: it may begin before
// the kernel before it ends.
template <class Storage, cuda::MatmulProblem problem, cuda::MatmulTile tile, class Epilogue>
class MatmulKernel {
 public:
  MatmulKernel(const Storage* a, const Storage* b, const Epilogue& epilogue)
      : a_(encoded(a, cuda::matmul_map_a(problem, tile), problem.is_bf16)),
        b_(encoded(b, cuda::matmul_map_b(problem), problem.is_bf16)),
        epilogue_(epilogue) {
    static_assert(problem.is_bf16 == __is_same(Storage, bf16) && problem.sums == Epilogue::sums &&
                  cuda::matmul_supports(problem, tile.schedule));
    allow_shared_memory(kKernel, kLaunch);
  }

  void operator()(cudaStream_t stream = nullptr, bool behind_kernel = false) const {
    launch_matmul(kKernel, kLaunch, stream, behind_kernel, a_, b_, problem.m, epilogue_);
  }

  static constexpr cuda::MatmulLaunch kLaunch = cuda::matmul_launch(problem, tile);
  static constexpr std::int64_t kSumsRows = cuda::matmul_sums_rows(problem, tile);

 private:
  using Config =
      cuda::MatmulConfig<Storage, problem.n, problem.k, problem.b_transposed, problem.paired, tile>;
  static constexpr auto kKernel = matmul_kernel<Config, Epilogue>;

  TensorMap a_, b_;
  Epilogue epilogue_;
};

constexpr bool operator==(const cuda::MatmulTile& a, const cuda::MatmulTile& b) {
  return a.schedule == b.schedule && a.rows == b.rows && a.panels == b.panels && a.stages == b.stages &&
         a.cluster == b.cluster && a.split == b.split;
}

constexpr cuda::MatmulTile persistent_tile(const cuda::MatmulProblem& p) {
  return cuda::matmul_tile(p, cuda::MatmulSchedule::persistent);
}
constexpr cuda::MatmulTile one_tile(int panels, int stages) {
  return {cuda::MatmulSchedule::one_tile, 64, panels, stages};
}
constexpr cuda::MatmulTile whole_rows_tile(int rows, int panels, int stages, int cluster) {
  return {cuda::MatmulSchedule::whole_rows, rows, panels, stages, cluster};
}

}  // namespace hydrac::test
