// The PTX instructions of attention and matmuls, one small function each; barriers and wgmma have files of
// their own.
#pragma once
#include "cuda/types.cuh"

namespace hydrac {

template <class Storage>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<bf16> = true;

namespace ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// 2^x, to 2 ulp; denormal results are 0.
__device__ __forceinline__ float exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Copies `bytes` (4 or 16) to shared memory, zeros if not `valid`; complete after wait_copies. Before sm_80,
// at once.
template <int bytes>
__device__ __forceinline__ void copy_to_shared(std::uint32_t to, const void* from, bool valid) {
  static_assert(bytes == 4 || bytes == 16);
#if __CUDA_ARCH__ >= 800
  const int source_bytes = valid ? bytes : 0;
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(source_bytes)
                 : "memory");
  }
#else
  Vector<std::uint32_t, bytes / 4> data{};
  if (valid) data = load<bytes / 4>(static_cast<const std::uint32_t*>(from));
  if constexpr (bytes == 16) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(data.at[0]), "r"(data.at[1]),
                 "r"(data.at[2]), "r"(data.at[3])
                 : "memory");
  } else {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(data.at[0]) : "memory");
  }
#endif
}

// `words` 32-bit words of shared memory.
template <int words>
__device__ __forceinline__ Vector<std::uint32_t, words> load_shared(std::uint32_t from) {
  static_assert(words == 1 || words == 2 || words == 4);
  Vector<std::uint32_t, words> data;
  if constexpr (words == 1) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(data.at[0]) : "r"(from) : "memory");
  } else if constexpr (words == 2) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(data.at[0]), "=r"(data.at[1])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(data.at[0]), "=r"(data.at[1]), "=r"(data.at[2]), "=r"(data.at[3])
                 : "r"(from)
                 : "memory");
  }
  return data;
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint64_t data) {
  asm volatile("st.shared.b64 [%0], %1;" ::"r"(to), "l"(data) : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t data) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(data) : "memory");
}

// Waits for all of this thread's copies; a barrier makes them visible to others.
__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Ends a group of this thread's copies; the other waits until at most `pending` groups are unfinished.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// Transposes an 8x8 matrix of 16-bit elements: lane l has two neighbours of row l / 4, from column l % 4 * 2
// on.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t x) {
  std::uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(x));
  return result;
}

// Stores four 8x8 matrices of 16-bit elements, each transposed; lane l gives the address of column l % 8 of
// matrix l / 8.
__device__ __forceinline__ void stmatrix_transposed(std::uint32_t address, const std::uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// Stores 16 aligned bytes to device memory in one access. The compiler may store a Vector one by one if it
// has held its elements apart.
__device__ __forceinline__ void store_to_memory(void* to, const std::uint32_t (&x)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]),
               "r"(x[3])
               : "memory");
}

// Stores what no block reads again soon: with the evict-first hint it leaves L2 before what is still to be
// read.
__device__ __forceinline__ void store_once(void* to, std::uint32_t x) {
  asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
__device__ __forceinline__ void store_once(void* to, const float (&x)[2]) {
  asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x[0]), "f"(x[1]) : "memory");
}

// Adds to four numbers in device memory, 16-byte aligned, without waiting.
__device__ __forceinline__ void add_to_memory(float* to, const float (&x)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
}

// The same of two, 8-byte aligned.
__device__ __forceinline__ void add_to_memory(float* to, const float (&x)[2]) {
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x[0]), "f"(x[1])
               : "memory");
}

// Messages between blocks through device memory. Writes of a thread, and of threads it has synchronized with,
// before a release are visible to others after the acquire that reads its value.
__device__ __forceinline__ void store_release(unsigned* to, unsigned x) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
__device__ __forceinline__ unsigned load_acquire(const unsigned* from) {
  unsigned x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x;
}

// Orders this thread's accesses, and those it has synchronized with, before the bulk copies that follow.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

// The same for what this thread wrote to the block's shared memory alone.
__device__ __forceinline__ void fence_shared_memory() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The warps of a warpgroup give registers back to the block, or take more: as many as each thread then has.
template <int registers>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// True in one thread of the warp; all of its threads must call it.
__device__ __forceinline__ bool elect() {
  std::uint32_t chosen;
  asm volatile("{\n.reg .pred chosen;\nelect.sync _|chosen, 0xFFFFFFFF;\nselp.b32 %0, 1, 0, chosen;\n}"
               : "=r"(chosen));
  return chosen != 0;
}

// c [16,8] += a [16,16] . b [16,8], in the layouts of mma.m16n8k16.
template <class Storage>
__device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1);

template <>
__device__ __forceinline__ void mma<bf16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma<f16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  // Turing's instruction is half as deep; the halves of the operands lie as it wants them.
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

// Two floats rounded to one register: `low` in the low half.
template <class Storage>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t result;
  if constexpr (kIsBf16<Storage>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  }
  return result;
#else
  return from_float<Storage>(low).bits | static_cast<std::uint32_t>(from_float<Storage>(high).bits) << 16;
#endif
}

}  // namespace ptx
}  // namespace hydrac
