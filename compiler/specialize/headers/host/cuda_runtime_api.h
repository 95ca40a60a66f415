// The CUDA runtime, as far as emitted programs and runtime/cuda/launch.cuh use it.
#pragma once
#include <cstddef>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError_t { cudaSuccess = 0 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

extern "C" cudaError_t cudaGetLastError();
extern "C" const char* cudaGetErrorString(cudaError_t error);
extern "C" cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);
