// Our declarations of the CUDA libraries' C interfaces against the real headers: every value, every
// structure, every function's parameters. The comparison happens while this compiles.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "runtime/cuda/abi/cublaslt.h"
#include "runtime/cuda/abi/driver.h"
#include "runtime/cuda/abi/nccl.h"
#include "runtime/cuda/abi/nvml.h"
#include "runtime/cuda/abi/nvtx.h"
#include "targets/device_code/nvrtc_abi.h"

// After ours: cuda.h turns some names into macros, unless all versions of its functions are asked for.
#define __CUDA_API_VERSION_INTERNAL
#include <cublasLt.h>
#include <cuda.h>
#include <cudaProfiler.h>
#include <nvrtc.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HYDRAC_HAS_NVTX 1
#endif
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HYDRAC_HAS_NVML 1
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define HYDRAC_HAS_NCCL 1
#endif

namespace hydrac::runtime::cuda {
namespace {

// Passed in the same way: of the same size; both pointers, both floating, or both integers (enums count as
// such).
template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class R, class... P, class TheirR, class... TheirP>
requires(sizeof...(P) == sizeof...(TheirP)) struct SameFunction<R (*)(P...), TheirR (*)(TheirP...)>
    : std::bool_constant<same_value<R, TheirR>() && (same_value<P, TheirP>() && ...)> {
};

static_assert(!SameFunction<int (*)(int), int (*)(long)>::value);
static_assert(!SameFunction<int (*)(int), int (*)(int, int)>::value);
static_assert(!SameFunction<int (*)(void*), int (*)(unsigned long long)>::value);

// cuda.h turns cuEventElapsedTime into its second version, which takes the same parameters.
namespace functions {
using namespace abi;
using namespace device_code::abi;
#define HYDRAC_SAME(name, parameters) \
  static_assert(SameFunction<abi::CUresult(*) parameters, decltype(&::name)>::value, #name);
HYDRAC_DRIVER_FUNCTIONS(HYDRAC_SAME)
#undef HYDRAC_SAME
#define HYDRAC_SAME(result, name, parameters) \
  static_assert(SameFunction<result(*) parameters, decltype(&::name)>::value, #name);
HYDRAC_NVRTC_FUNCTIONS(HYDRAC_SAME)
HYDRAC_CUBLASLT_FUNCTIONS(HYDRAC_SAME)
#ifdef HYDRAC_HAS_NVML
HYDRAC_NVML_FUNCTIONS(HYDRAC_SAME)
#endif
#ifdef HYDRAC_HAS_NCCL
HYDRAC_NCCL_FUNCTIONS(HYDRAC_SAME)
#endif
#undef HYDRAC_SAME
}  // namespace functions

// Programs that nvcc compiles pass our streams to the toolkit's functions.
static_assert(std::is_same_v<abi::CUstream, ::CUstream> && std::is_same_v<abi::CUstream, ::cudaStream_t>);
static_assert(std::is_same_v<abi::CUevent, ::CUevent> && std::is_same_v<abi::CUevent, ::cudaEvent_t>);

struct Value {
  const char* name;
  long long ours, theirs;
};
#define HYDRAC_VALUE(ours, theirs)                                                   \
  Value {                                                                            \
#theirs, static_cast < long long>(abi::ours), static_cast < long long>(::theirs) \
  }

void expect_same(std::initializer_list<Value> values) {
  for (const Value& value : values) EXPECT_EQ(value.ours, value.theirs) << value.name;
}

TEST(CudaAbi, DriverValuesAreThoseOfTheHeader) {
  expect_same({
      HYDRAC_VALUE(kCudaSuccess, CUDA_SUCCESS),
      HYDRAC_VALUE(kCudaOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY),
      HYDRAC_VALUE(kCudaNoDevice, CUDA_ERROR_NO_DEVICE),
      HYDRAC_VALUE(kCudaInvalidImage, CUDA_ERROR_INVALID_IMAGE),
      HYDRAC_VALUE(kCudaNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU),
      HYDRAC_VALUE(kCudaUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
      HYDRAC_VALUE(kCudaNotFound, CUDA_ERROR_NOT_FOUND),
      HYDRAC_VALUE(kCudaNotReady, CUDA_ERROR_NOT_READY),
      HYDRAC_VALUE(kCudaSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
      HYDRAC_VALUE(kDeviceMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
      HYDRAC_VALUE(kDeviceL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
      HYDRAC_VALUE(kDeviceCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
      HYDRAC_VALUE(kDeviceCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
      HYDRAC_VALUE(kDeviceSharedBytesOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
      HYDRAC_VALUE(kDeviceHostNode, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID),
      HYDRAC_VALUE(kDeviceMapsHostMemory, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
      HYDRAC_VALUE(kMemPinned, CU_MEM_ALLOCATION_TYPE_PINNED),
      HYDRAC_VALUE(kMemOnDevice, CU_MEM_LOCATION_TYPE_DEVICE),
      HYDRAC_VALUE(kMemOnHostNode, CU_MEM_LOCATION_TYPE_HOST_NUMA),
      HYDRAC_VALUE(kMemReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
      HYDRAC_VALUE(kIpcEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
      HYDRAC_VALUE(kMemoryWait32, CU_STREAM_MEM_OP_WAIT_VALUE_32),
      HYDRAC_VALUE(kMemoryWrite32, CU_STREAM_MEM_OP_WRITE_VALUE_32),
      HYDRAC_VALUE(kWaitForEqual, CU_STREAM_WAIT_VALUE_EQ),
      HYDRAC_VALUE(kWriteAfterAll, CU_STREAM_WRITE_VALUE_DEFAULT),
      HYDRAC_VALUE(kFunctionMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
      HYDRAC_VALUE(kFunctionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
      HYDRAC_VALUE(kFunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
      HYDRAC_VALUE(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS),
      HYDRAC_VALUE(kFunctionMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
      HYDRAC_VALUE(kJitErrorLog, CU_JIT_ERROR_LOG_BUFFER),
      HYDRAC_VALUE(kJitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES),
      HYDRAC_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING),
      HYDRAC_VALUE(kEventDefault, CU_EVENT_DEFAULT),
      HYDRAC_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING),
      HYDRAC_VALUE(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      HYDRAC_VALUE(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE),
      HYDRAC_VALUE(kGraphNodeKernel, CU_GRAPH_NODE_TYPE_KERNEL),
      HYDRAC_VALUE(kTensorMapFloat16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
      HYDRAC_VALUE(kTensorMapBfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
      HYDRAC_VALUE(kTensorMapInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE),
      HYDRAC_VALUE(kTensorMapSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B),
      HYDRAC_VALUE(kTensorMapPromoteL2To256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
      HYDRAC_VALUE(kTensorMapFillZeros, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      HYDRAC_VALUE(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),
      HYDRAC_VALUE(kLaunchProgrammaticSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
  });
}

TEST(CudaAbi, OperationsOnFlagsAreThoseOfTheHeader) {
  static_assert(sizeof(abi::CUipcMemHandle) == sizeof(::CUipcMemHandle));
  static_assert(sizeof(abi::CUstreamBatchMemOpParams) == sizeof(::CUstreamBatchMemOpParams));
  abi::CUstreamBatchMemOpParams ours{};
  ours.flag.operation = abi::kMemoryWait32;
  ours.flag.address = 0x123456789a;
  ours.flag.value = 7;
  ours.flag.flags = abi::kWaitForEqual;
  ::CUstreamBatchMemOpParams theirs{};
  std::memcpy(&theirs, &ours, sizeof theirs);
  EXPECT_EQ(theirs.waitValue.operation, CU_STREAM_MEM_OP_WAIT_VALUE_32);
  EXPECT_EQ(theirs.waitValue.address, ours.flag.address);
  EXPECT_EQ(theirs.waitValue.value, 7u);
  EXPECT_EQ(theirs.waitValue.flags, static_cast<unsigned>(CU_STREAM_WAIT_VALUE_EQ));
}

TEST(CudaAbi, NvrtcValuesAreThoseOfTheHeader) {
  EXPECT_EQ(device_code::abi::kNvrtcSuccess, NVRTC_SUCCESS);
}

TEST(CudaAbi, CublasLtValuesAreThoseOfTheHeader) {
  expect_same({
      HYDRAC_VALUE(kBlasSuccess, CUBLAS_STATUS_SUCCESS),
      HYDRAC_VALUE(kBlasInvalidValue, CUBLAS_STATUS_INVALID_VALUE),
      HYDRAC_VALUE(kBlasArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH),
      HYDRAC_VALUE(kBlasNotSupported, CUBLAS_STATUS_NOT_SUPPORTED),
      HYDRAC_VALUE(kType32F, CUDA_R_32F),
      HYDRAC_VALUE(kType16F, CUDA_R_16F),
      HYDRAC_VALUE(kType16BF, CUDA_R_16BF),
      HYDRAC_VALUE(kCompute32F, CUBLAS_COMPUTE_32F),
      HYDRAC_VALUE(kCompute32FFastTF32, CUBLAS_COMPUTE_32F_FAST_TF32),
      HYDRAC_VALUE(kOpN, CUBLAS_OP_N),
      HYDRAC_VALUE(kOpT, CUBLAS_OP_T),
      HYDRAC_VALUE(kDescTransA, CUBLASLT_MATMUL_DESC_TRANSA),
      HYDRAC_VALUE(kDescTransB, CUBLASLT_MATMUL_DESC_TRANSB),
      HYDRAC_VALUE(kDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE),
      HYDRAC_VALUE(kLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
      HYDRAC_VALUE(kLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
      HYDRAC_VALUE(kDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER),
      HYDRAC_VALUE(kDescMultiprocessors, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET),
      HYDRAC_VALUE(kPreferenceWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
      HYDRAC_VALUE(kPreferenceReductionMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
      HYDRAC_VALUE(kPreferenceAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
      HYDRAC_VALUE(kPreferenceAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
      HYDRAC_VALUE(kPreferenceAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
      HYDRAC_VALUE(kPreferenceAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),
      HYDRAC_VALUE(kReductionNone, CUBLASLT_REDUCTION_SCHEME_NONE),
      HYDRAC_VALUE(kReductionComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
      HYDRAC_VALUE(kConfigId, CUBLASLT_ALGO_CONFIG_ID),
      HYDRAC_VALUE(kConfigTile, CUBLASLT_ALGO_CONFIG_TILE_ID),
      HYDRAC_VALUE(kConfigSplitK, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
      HYDRAC_VALUE(kConfigReduction, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
      HYDRAC_VALUE(kConfigSwizzle, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
      HYDRAC_VALUE(kConfigCluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
      HYDRAC_VALUE(kCapabilityTiles, CUBLASLT_ALGO_CAP_TILE_IDS),
      HYDRAC_VALUE(kConfigStages, CUBLASLT_ALGO_CONFIG_STAGES_ID),
      HYDRAC_VALUE(kEpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT),
      HYDRAC_VALUE(kEpilogueBias, CUBLASLT_EPILOGUE_BIAS),
  });
}

#ifdef HYDRAC_HAS_NVML
TEST(CudaAbi, NvmlValuesAreThoseOfTheHeader) {
  expect_same({HYDRAC_VALUE(kNvmlSuccess, NVML_SUCCESS), HYDRAC_VALUE(kNvmlClockSm, NVML_CLOCK_SM),
               HYDRAC_VALUE(kNvmlClockMemory, NVML_CLOCK_MEM),
               HYDRAC_VALUE(kNvmlTemperatureGpu, NVML_TEMPERATURE_GPU)});
  static_assert(sizeof(abi::nvmlUtilization_t) == sizeof(::nvmlUtilization_t));
  static_assert(offsetof(abi::nvmlUtilization_t, gpu) == offsetof(::nvmlUtilization_t, gpu));
  static_assert(sizeof(abi::nvmlMemory_t) == sizeof(::nvmlMemory_t));
  static_assert(offsetof(abi::nvmlMemory_t, used) == offsetof(::nvmlMemory_t, used));
}
#endif

#ifdef HYDRAC_HAS_NCCL
TEST(CudaAbi, NcclValuesAreThoseOfTheHeader) {
  expect_same({HYDRAC_VALUE(kNcclSuccess, ncclSuccess), HYDRAC_VALUE(kNcclFloat16, ncclFloat16),
               HYDRAC_VALUE(kNcclFloat32, ncclFloat32), HYDRAC_VALUE(kNcclBfloat16, ncclBfloat16),
               HYDRAC_VALUE(kNcclSum, ncclSum), HYDRAC_VALUE(kNcclMax, ncclMax)});
  static_assert(sizeof(abi::ncclUniqueId) == sizeof(::ncclUniqueId));
  static_assert(std::is_same_v<abi::ncclComm_t, ::ncclComm_t>);
}
#endif

#ifdef HYDRAC_HAS_NVTX
TEST(CudaAbi, NvtxIsThatOfTheHeader) {
  expect_same(
      {HYDRAC_VALUE(kNvtxTableCallbacks, NVTX_ETID_CALLBACKS),
       HYDRAC_VALUE(kNvtxTableVersion, NVTX_ETID_VERSIONINFO),
       HYDRAC_VALUE(kNvtxModuleCore, NVTX_CB_MODULE_CORE), HYDRAC_VALUE(kNvtxModuleSync, NVTX_CB_MODULE_SYNC),
       HYDRAC_VALUE(kNvtxRangePushA, NVTX_CBID_CORE_RangePushA),
       HYDRAC_VALUE(kNvtxRangePop, NVTX_CBID_CORE_RangePop), HYDRAC_VALUE(kNvtxCoreSize, NVTX_CBID_CORE_SIZE),
       HYDRAC_VALUE(kNvtxCoreSize, NVTX_CBID_CORE2_SIZE)});
  static_assert(abi::kNvtxModuleSync + 1 == NVTX_CB_MODULE_SIZE);
  static_assert(abi::kNvtxCoreSize >= NVTX_CBID_OPENCL_SIZE && abi::kNvtxCoreSize >= NVTX_CBID_CUDA_SIZE &&
                abi::kNvtxCoreSize >= NVTX_CBID_SYNC_SIZE);
  static_assert(sizeof(abi::NvtxExportTableCallbacks) == sizeof(::NvtxExportTableCallbacks));
  static_assert(offsetof(abi::NvtxExportTableCallbacks, module_functions) ==
                offsetof(::NvtxExportTableCallbacks, GetModuleFunctionTable));
  static_assert(sizeof(abi::NvtxExportTableVersionInfo) == sizeof(::NvtxExportTableVersionInfo));
  static_assert(offsetof(abi::NvtxExportTableVersionInfo, set_injection_version) ==
                offsetof(::NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
}
#endif

TEST(CudaAbi, StructuresLieInMemoryAsTheHeadersSay) {
  using OurAttribute = abi::CUlaunchAttribute;
  using TheirAttribute = ::CUlaunchAttribute;
  static_assert(sizeof(OurAttribute) == sizeof(TheirAttribute));
  static_assert(alignof(OurAttribute) == alignof(TheirAttribute));
  static_assert(offsetof(OurAttribute, value) == offsetof(TheirAttribute, value));
  using OurConfig = abi::CUlaunchConfig;
  using TheirConfig = ::CUlaunchConfig;
  static_assert(sizeof(OurConfig) == sizeof(TheirConfig));
  static_assert(offsetof(OurConfig, grid_z) == offsetof(TheirConfig, gridDimZ));
  static_assert(offsetof(OurConfig, block_x) == offsetof(TheirConfig, blockDimX));
  static_assert(offsetof(OurConfig, shared_bytes) == offsetof(TheirConfig, sharedMemBytes));
  static_assert(offsetof(OurConfig, stream) == offsetof(TheirConfig, hStream));
  static_assert(offsetof(OurConfig, attributes) == offsetof(TheirConfig, attrs));
  static_assert(offsetof(OurConfig, attribute_count) == offsetof(TheirConfig, numAttrs));
  static_assert(sizeof(abi::CUmemAllocationProp) == sizeof(::CUmemAllocationProp));
  static_assert(offsetof(abi::CUmemAllocationProp, location) == offsetof(::CUmemAllocationProp, location));
  static_assert(offsetof(abi::CUmemAllocationProp, flags) == offsetof(::CUmemAllocationProp, allocFlags));
  static_assert(sizeof(abi::CUmemAccessDesc) == sizeof(::CUmemAccessDesc));
  static_assert(offsetof(abi::CUmemAccessDesc, flags) == offsetof(::CUmemAccessDesc, flags));
  using OurResult = abi::cublasLtMatmulHeuristicResult_t;
  using TheirResult = ::cublasLtMatmulHeuristicResult_t;
  static_assert(sizeof(abi::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
  static_assert(sizeof(OurResult) == sizeof(TheirResult));
  static_assert(offsetof(OurResult, workspace_bytes) == offsetof(TheirResult, workspaceSize));
  static_assert(offsetof(OurResult, state) == offsetof(TheirResult, state));
  static_assert(offsetof(OurResult, waves) == offsetof(TheirResult, wavesCount));
  SUCCEED();
}

}  // namespace
}  // namespace hydrac::runtime::cuda
