// The CUDA runtime, as far as emitted programs and runtime/cuda/launch.cuh use it.
#pragma once
#include <cstddef>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError_t { cudaSuccess = 0 };
#ifndef __CUDACC__
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
#endif
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
union cudaLaunchAttributeValue {
  char pad[64];
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

extern "C" cudaError_t cudaGetLastError();
extern "C" cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                           void** arguments);
extern "C" const char* cudaGetErrorString(cudaError_t error);
extern "C" cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);
