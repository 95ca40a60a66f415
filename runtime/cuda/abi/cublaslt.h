// The part of cuBLASLt's C ABI (libcublasLt.so.12 and .13) that this folder uses; see driver.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/abi/driver.h"

namespace hydrac::runtime::cuda::abi {

using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct MatmulDescOpaque*;
using cublasLtMatrixLayout_t = struct MatrixLayoutOpaque*;
using cublasLtMatmulPreference_t = struct MatmulPreferenceOpaque*;

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspace_bytes;
  cublasStatus_t state;
  float waves;
  int reserved[4];
};

constexpr cublasStatus_t kBlasSuccess = 0;
constexpr cublasStatus_t kBlasInvalidValue = 7;
constexpr cublasStatus_t kBlasArchMismatch = 8;
constexpr cublasStatus_t kBlasNotSupported = 15;

constexpr int kType32F = 0, kType16F = 2, kType16BF = 14, kType8E4M3 = 28, kType8E5M2 = 29;
constexpr int kCompute32F = 68, kCompute32FFastTF32 = 77;
constexpr std::int32_t kOpN = 0, kOpT = 1;

constexpr int kLayoutBatchCount = 5, kLayoutBatchStride = 6;

constexpr int kDescTransA = 3, kDescTransB = 4;
constexpr int kDescEpilogue = 7, kDescBiasPointer = 8;
constexpr int kDescMultiprocessors = 15;
constexpr int kDescScaleA = 17, kDescScaleB = 18, kDescFastSums = 25;

constexpr int kPreferenceWorkspaceBytes = 1, kPreferenceReductionMask = 3;
constexpr int kPreferenceAlignmentA = 5, kPreferenceAlignmentB = 6;
constexpr int kPreferenceAlignmentC = 7, kPreferenceAlignmentD = 8;

constexpr std::uint32_t kReductionNone = 0, kReductionComputeType = 2;

constexpr int kConfigId = 0, kConfigTile = 1, kConfigSplitK = 2, kConfigReduction = 3, kConfigSwizzle = 4;
constexpr int kConfigStages = 6, kConfigCluster = 8;
constexpr int kCapabilityTiles = 6;

constexpr std::uint32_t kEpilogueDefault = 1, kEpilogueBias = 4;

// clang-format off
#define HYDRAC_CUBLASLT_FUNCTIONS(X)                                                                             \
  X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t* handle))                                                  \
  X(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                                                  \
  X(const char*, cublasLtGetStatusName, (cublasStatus_t status))                                                 \
  X(std::size_t, cublasLtGetVersion, ())                                                                         \
  X(cublasStatus_t, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t* desc, int compute, int scale))              \
  X(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                      \
  X(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                              \
    (cublasLtMatmulDesc_t desc, int attribute, const void* value, std::size_t bytes))                            \
  X(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                                  \
    (cublasLtMatrixLayout_t* layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t ld))      \
  X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                                            \
    (cublasLtMatrixLayout_t layout, int attribute, const void* value, std::size_t bytes))                        \
  X(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                \
  X(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t* preference))                    \
  X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                    \
  X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                        \
    (cublasLtMatmulPreference_t preference, int attribute, const void* value, std::size_t bytes))                \
  X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                              \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,     \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,      \
     cublasLtMatmulHeuristicResult_t* results, int* found))                                                      \
  X(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                                     \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,     \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,                       \
     cublasLtMatmulHeuristicResult_t* result))                                                                   \
  X(cublasStatus_t, cublasLtMatmulAlgoCapGetAttribute,                                                           \
    (const cublasLtMatmulAlgo_t* algo, int attribute, void* value, std::size_t bytes, std::size_t* written))     \
  X(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute,                                                        \
    (cublasLtMatmulAlgo_t* algo, int attribute, const void* value, std::size_t bytes))                           \
  X(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                                                        \
    (const cublasLtMatmulAlgo_t* algo, int attribute, void* value, std::size_t bytes, std::size_t* written))     \
  X(cublasStatus_t, cublasLtMatmul,                                                                              \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,                       \
     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,          \
     const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,                   \
     const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, CUstream stream))
// clang-format on

struct CublasLtApi {
#define HYDRAC_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  HYDRAC_CUBLASLT_FUNCTIONS(HYDRAC_MEMBER)
#undef HYDRAC_MEMBER
};

}  // namespace hydrac::runtime::cuda::abi
