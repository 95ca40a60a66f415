// The part of the CUDA driver's C ABI (libcuda.so.1, driver 525 and newer) that this folder uses, declared by
// hand so that no CUDA header is needed to build. tests/unit/cuda_runtime/abi_test.cpp compares it with the
// real headers.
#pragma once
#include <cstddef>

// The toolkit's CUstream and cudaStream_t, and CUevent and cudaEvent_t, are pointers to these, so its handles
// and ours have the same types.
struct CUstream_st;
struct CUevent_st;

namespace hydrac::runtime::cuda::abi {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = ::CUstream_st*;
using CUevent = ::CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
struct alignas(128) CUtensorMap {
  unsigned long long opaque[16];
};

constexpr CUresult kCudaSuccess = 0;
constexpr CUresult kCudaOutOfMemory = 2;
constexpr CUresult kCudaNoDevice = 100;
constexpr CUresult kCudaInvalidImage = 200;
constexpr CUresult kCudaNoBinaryForGpu = 209;
constexpr CUresult kCudaUnsupportedPtxVersion = 222;
constexpr CUresult kCudaNotFound = 500;
constexpr CUresult kCudaNotReady = 600;
constexpr CUresult kCudaSystemDriverMismatch = 803;

constexpr int kDeviceMultiprocessors = 16;
constexpr int kDeviceL2Bytes = 38;
constexpr int kDeviceCapabilityMajor = 75;
constexpr int kDeviceCapabilityMinor = 76;
constexpr int kDeviceSharedBytesOptin = 97;
constexpr int kDeviceHostNode = 134;        // NUMA node; -1: the machine has none
constexpr int kDeviceMapsHostMemory = 141;  // by cuMemCreate on a node

using CUmemGenericAllocationHandle = unsigned long long;
constexpr int kMemPinned = 1;
constexpr int kMemOnDevice = 1, kMemOnHostNode = 3;
constexpr int kMemReadWrite = 3;
struct CUmemLocation {
  int type, id;
};
struct CUmemAllocationProp {
  int type, handles;
  CUmemLocation location;
  void* windows_only;
  unsigned char flags[8];
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

constexpr unsigned kIpcEnablePeerAccess = 1;
struct CUipcMemHandle {
  char reserved[64];
};

// Operations on 32-bit words in stream order. A write comes after all earlier work of the stream, as seen by
// this and other GPUs.
constexpr int kMemoryWait32 = 1, kMemoryWrite32 = 2;
constexpr unsigned kWaitForEqual = 1, kWriteAfterAll = 0;
union CUstreamBatchMemOpParams {
  struct {
    int operation;
    CUdeviceptr address;
    union {
      unsigned value;
      unsigned long long value64;
    };
    unsigned flags;
    CUdeviceptr driver_only;
  } flag;
  unsigned long long pad[6];
};

constexpr int kFunctionMaxThreads = 0;
constexpr int kFunctionSharedBytes = 1;
constexpr int kFunctionLocalBytes = 3;
constexpr int kFunctionRegisters = 4;
constexpr int kFunctionMaxDynamicSharedBytes = 8;

constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0, kEventDisableTiming = 2;
constexpr unsigned kEventRecordExternal = 1;
constexpr int kCaptureThreadLocal = 1;
constexpr int kCaptureActive = 1;
constexpr int kGraphNodeKernel = 0;

constexpr int kLaunchClusterDimension = 4;
constexpr int kLaunchProgrammaticSerialization = 6;

constexpr int kTensorMapFloat16 = 6, kTensorMapBfloat16 = 9;
constexpr int kTensorMapInterleaveNone = 0;
constexpr int kTensorMapSwizzle128 = 3;
constexpr int kTensorMapPromoteL2To256 = 3;
constexpr int kTensorMapFillZeros = 0;

struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic_serialization;
    void* aligned;
  } value;
};

struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned attribute_count;
};

// clang-format off
#define HYDRAC_DRIVER_FUNCTIONS(X)                                                                               \
  X(cuInit, (unsigned flags))                                                                                    \
  X(cuDriverGetVersion, (int* version))                                                                          \
  X(cuGetErrorName, (CUresult error, const char** text))                                                         \
  X(cuGetErrorString, (CUresult error, const char** text))                                                       \
  X(cuDeviceGetCount, (int* count))                                                                              \
  X(cuDeviceGet, (CUdevice* device, int ordinal))                                                                \
  X(cuDeviceGetName, (char* name, int bytes, CUdevice device))                                                   \
  X(cuDeviceGetAttribute, (int* value, int attribute, CUdevice device))                                          \
  X(cuDeviceTotalMem_v2, (std::size_t* bytes, CUdevice device))                                                  \
  X(cuDeviceGetPCIBusId, (char* text, int bytes, CUdevice device))                                               \
  X(cuDevicePrimaryCtxRetain, (CUcontext* context, CUdevice device))                                             \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                             \
  X(cuCtxSetCurrent, (CUcontext context))                                                                        \
  X(cuCtxGetDevice, (CUdevice* device))                                                                          \
  X(cuCtxSynchronize, ())                                                                                        \
  X(cuMemGetInfo_v2, (std::size_t* free, std::size_t* total))                                                    \
  X(cuMemAlloc_v2, (CUdeviceptr* address, std::size_t bytes))                                                    \
  X(cuMemFree_v2, (CUdeviceptr address))                                                                         \
  X(cuMemAddressReserve, (CUdeviceptr* address, std::size_t bytes, std::size_t alignment, CUdeviceptr wanted,    \
                          unsigned long long flags))                                                             \
  X(cuMemAddressFree, (CUdeviceptr address, std::size_t bytes))                                                  \
  X(cuMemCreate, (CUmemGenericAllocationHandle* memory, std::size_t bytes, const CUmemAllocationProp* kind,      \
                  unsigned long long flags))                                                                     \
  X(cuMemRelease, (CUmemGenericAllocationHandle memory))                                                         \
  X(cuMemMap, (CUdeviceptr address, std::size_t bytes, std::size_t offset,                                       \
               CUmemGenericAllocationHandle memory, unsigned long long flags))                                   \
  X(cuMemUnmap, (CUdeviceptr address, std::size_t bytes))                                                        \
  X(cuMemSetAccess, (CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count))  \
  X(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))                                           \
  X(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr address))                                           \
  X(cuIpcOpenMemHandle_v2, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags))                       \
  X(cuIpcCloseMemHandle, (CUdeviceptr address))                                                                  \
  X(cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags))                                         \
  X(cuMemFreeHost, (void* address))                                                                              \
  X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, std::size_t bytes))                                      \
  X(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, std::size_t bytes))                                            \
  X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes))                                      \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream))                \
  X(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream))                      \
  X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream))                       \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream))                \
  X(cuMemsetD8Async, (CUdeviceptr address, unsigned char value, std::size_t count, CUstream stream))             \
  X(cuMemsetD32Async, (CUdeviceptr address, unsigned value, std::size_t count, CUstream stream))                 \
  X(cuStreamCreate, (CUstream* stream, unsigned flags))                                                          \
  X(cuStreamDestroy_v2, (CUstream stream))                                                                       \
  X(cuStreamSynchronize, (CUstream stream))                                                                      \
  X(cuStreamQuery, (CUstream stream))                                                                            \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                         \
  X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                        \
  X(cuStreamEndCapture, (CUstream stream, CUgraph* graph))                                                       \
  X(cuStreamBatchMemOp_v2,                                                                                       \
    (CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags))                     \
  X(cuStreamGetCaptureInfo_v2, (CUstream stream, int* status, unsigned long long* id, CUgraph* graph,            \
                                const CUgraphNode** nodes, std::size_t* count))                                  \
  X(cuEventCreate, (CUevent* event, unsigned flags))                                                             \
  X(cuEventDestroy_v2, (CUevent event))                                                                          \
  X(cuEventRecord, (CUevent event, CUstream stream))                                                             \
  X(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))                                    \
  X(cuEventSynchronize, (CUevent event))                                                                         \
  X(cuEventQuery, (CUevent event))                                                                               \
  X(cuEventElapsedTime, (float* ms, CUevent start, CUevent end))                                                 \
  X(cuGraphInstantiateWithFlags, (CUgraphExec* exec, CUgraph graph, unsigned long long flags))                   \
  X(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count))                                    \
  X(cuGraphNodeGetType, (CUgraphNode node, int* type))                                                           \
  X(cuGraphDestroy, (CUgraph graph))                                                                             \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                                      \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                          \
  X(cuModuleLoadDataEx, (CUmodule* module, const void* image, unsigned options, int* keys, void** values))       \
  X(cuModuleUnload, (CUmodule module))                                                                           \
  X(cuModuleGetFunction, (CUfunction* function, CUmodule module, const char* name))                              \
  X(cuModuleGetGlobal_v2, (CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name))         \
  X(cuFuncGetAttribute, (int* value, int attribute, CUfunction function))                                        \
  X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                         \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                                 \
    (int* blocks, CUfunction function, int threads, std::size_t shared_bytes))                                   \
  X(cuTensorMapEncodeTiled,                                                                                      \
    (CUtensorMap * map, int type, unsigned rank, void* address, const unsigned long long* sizes,                 \
     const unsigned long long* strides, const unsigned* box, const unsigned* element_strides, int interleave,    \
     int swizzle, int l2_promotion, int fill))                                                                   \
  X(cuProfilerStart, ())                                                                                         \
  X(cuProfilerStop, ())                                                                                          \
  X(cuLaunchKernelEx, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))
// clang-format on

struct DriverApi {
#define HYDRAC_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  HYDRAC_DRIVER_FUNCTIONS(HYDRAC_MEMBER)
#undef HYDRAC_MEMBER
};

}  // namespace hydrac::runtime::cuda::abi
