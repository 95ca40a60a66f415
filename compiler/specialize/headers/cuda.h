// Declarations that nvcc and NVRTC predefine, as far as hydrac's templates and emitted programs use them, for
// Clang's CUDA mode. Included before the first line of every CUDA source.
#pragma once

#define __CUDACC__ 1

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __cluster_dims__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

#pragma clang force_cuda_host_device begin

using size_t = decltype(sizeof(0));

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// Launches.
struct CUstream_st;
using cudaStream_t = CUstream_st*;
extern "C" int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr);
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0,
                                                void* stream = nullptr);

// Floats.
float fabsf(float), fmaxf(float, float), fminf(float, float), fmaf(float, float, float);
float sqrtf(float), rsqrtf(float), expf(float), exp2f(float), logf(float), log2f(float), tanhf(float),
    erff(float);
float sinf(float), cosf(float), powf(float, float), floorf(float), ceilf(float), roundf(float), truncf(float);
float copysignf(float, float);
double fabs(double), fmax(double, double), fmin(double, double), sqrt(double), exp(double), expm1(double),
    log(double), log1p(double), tanh(double), erf(double), sin(double), cos(double), pow(double, double),
    floor(double);
bool isfinite(float), isfinite(double);
float __expf(float), __logf(float), __fdividef(float, float), __frcp_rn(float), __fsqrt_rn(float);
float __fmaf_rn(float, float, float), __fadd_rn(float, float), __fmul_rn(float, float);
unsigned __float_as_uint(float);
int __float_as_int(float);
float __uint_as_float(unsigned), __int_as_float(int);
int min(int, int), max(int, int), abs(int);
unsigned min(unsigned, unsigned), max(unsigned, unsigned);
unsigned umin(unsigned, unsigned), umax(unsigned, unsigned);
unsigned __umulhi(unsigned, unsigned);
int __popc(unsigned), __ffs(int), __clz(int);

#pragma clang force_cuda_host_device end

// Threads of a block and of a warp.
__device__ void __syncthreads();
__device__ int __syncthreads_count(int), __syncthreads_and(int), __syncthreads_or(int);
__device__ void __syncwarp(unsigned mask = 0xFFFFFFFFu);
__device__ int __all_sync(unsigned, int), __any_sync(unsigned, int);
__device__ unsigned __ballot_sync(unsigned, int), __activemask();
template <typename T>
__device__ unsigned __match_any_sync(unsigned mask, T value);
template <typename T>
__device__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32);
template <typename T>
__device__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32);
template <typename T>
__device__ T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32);
template <typename T>
__device__ T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32);
__device__ unsigned __reduce_max_sync(unsigned mask, unsigned value);

// Memory.
template <typename T>
__device__ T __ldg(const T* from);
template <typename T>
__device__ T atomicAdd(T* to, T value);
__device__ int atomicMax(int* to, int value);
__device__ size_t __cvta_generic_to_shared(const void* pointer);
__device__ void __threadfence(), __threadfence_block();
__device__ void __trap();
