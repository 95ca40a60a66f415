// Hopper's warpgroup matmuls (sm_90a): 128 threads multiply [64,16] by [16,N], the right side and optionally
// the left in shared memory, 128-byte swizzled. See "Asynchronous warpgroup level matrix instructions" in the
// PTX manual.
#pragma once
#include "cuda/ptx.cuh"

namespace hydrac::wgmma {

// Describes an operand: rows of 128 bytes, swizzled in groups of eight rows, 1024 bytes each. `panel_bytes`
// is the distance to the next 64 columns; only wider operands that are read across rows (transposed) use it.
// `offset` bytes are added to the address. Shared memory ends below 2^18, so the fields of the low word do
// not overlap.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t panel_bytes,
                                                    std::uint32_t offset) {
  constexpr std::uint32_t swizzle_128_bytes = 1u << 30, group_bytes = 1024;
  const std::uint32_t low = (address >> 4) + ((panel_bytes >> 4 << 16) + (offset >> 4));
  return static_cast<std::uint64_t>(swizzle_128_bytes | group_bytes >> 4) << 32 | low;
}

// The same for an operand that is not read across rows, with rows of 64 or 128 bytes and a swizzle as wide.
template <int row_bytes>
__device__ __forceinline__ std::uint64_t row_descriptor(std::uint32_t address) {
  static_assert(row_bytes == 64 || row_bytes == 128);
  constexpr std::uint32_t swizzle = row_bytes == 128 ? 1u << 30 : 2u << 30, group_bytes = 8 * row_bytes;
  return static_cast<std::uint64_t>(swizzle | group_bytes >> 4) << 32 | address >> 4;
}

#define HYDRAC_WGMMA_REGISTERS_16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HYDRAC_WGMMA_REGISTERS_32 \
  HYDRAC_WGMMA_REGISTERS_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HYDRAC_WGMMA_REGISTERS_64                                                                     \
  HYDRAC_WGMMA_REGISTERS_32                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
  "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HYDRAC_WGMMA_REGISTERS_96                                                                     \
  HYDRAC_WGMMA_REGISTERS_64                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HYDRAC_WGMMA_SUM(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define HYDRAC_WGMMA_FOUR_SUMS(n) \
  HYDRAC_WGMMA_SUM(n), HYDRAC_WGMMA_SUM(n + 1), HYDRAC_WGMMA_SUM(n + 2), HYDRAC_WGMMA_SUM(n + 3)
#define HYDRAC_WGMMA_SUMS_16 HYDRAC_WGMMA_FOUR_SUMS(0)
#define HYDRAC_WGMMA_SUMS_32 HYDRAC_WGMMA_FOUR_SUMS(0), HYDRAC_WGMMA_FOUR_SUMS(4)
#define HYDRAC_WGMMA_SUMS_64 HYDRAC_WGMMA_SUMS_32, HYDRAC_WGMMA_FOUR_SUMS(8), HYDRAC_WGMMA_FOUR_SUMS(12)
#define HYDRAC_WGMMA_SUMS_96 HYDRAC_WGMMA_SUMS_64, HYDRAC_WGMMA_FOUR_SUMS(16), HYDRAC_WGMMA_FOUR_SUMS(20)

// c = (add ? c : 0) + a . b, both in shared memory. A thread has COUNT of the N columns' sums; A to B_ROWS
// are the numbers of the asm operands after these.
#define HYDRAC_WGMMA_SHARED(N, TYPE, COUNT, A, B, ADD, A_ROWS, B_ROWS)                                   \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT                               \
               "}, %" A ", %" B ", add, 1, 1, %" A_ROWS ", %" B_ROWS ";\n}"                              \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(a_rows ? 1 : 0), "n"(b_rows ? 1 : 0))

// c = (add ? c : 0) + a . b: a [64,16] in registers, b [16,N] in shared memory, the N contiguous.
#define HYDRAC_WGMMA_REGISTERS(N, TYPE, COUNT, A0, A1, A2, A3, B, ADD)                                   \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT                               \
               "}, {%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" B ", add, 1, 1, 1;\n}"                       \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))

// One of the above for the type of Storage.
#define HYDRAC_WGMMA_OF_STORAGE(WHAT, N, ...) \
  if constexpr (kIsBf16<Storage>) {           \
    WHAT(N, "bf16", __VA_ARGS__);             \
  } else {                                    \
    WHAT(N, "f16", __VA_ARGS__);              \
  }

// a and b in shared memory: a as [64,16], the 16 contiguous, or with `a_rows` as [16,64], the 64 contiguous;
// b as [N,16], the 16 contiguous, or with `b_rows` as [16,N], the N contiguous.
template <class Storage, int N, bool a_rows, bool b_rows>
__device__ __forceinline__ void multiply_shared(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                                bool add) {
  static_assert(N == 32 || N == 64 || N == 128 || N == 192);
  if constexpr (N == 32) {
    HYDRAC_WGMMA_OF_STORAGE(HYDRAC_WGMMA_SHARED, 32, 16, "16", "17", "18", "19", "20")
  } else if constexpr (N == 64) {
    HYDRAC_WGMMA_OF_STORAGE(HYDRAC_WGMMA_SHARED, 64, 32, "32", "33", "34", "35", "36")
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA_OF_STORAGE(HYDRAC_WGMMA_SHARED, 128, 64, "64", "65", "66", "67", "68")
  } else {
    HYDRAC_WGMMA_OF_STORAGE(HYDRAC_WGMMA_SHARED, 192, 96, "96", "97", "98", "99", "100")
  }
}

// a [64,16] and b [N,16] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b, bool add) {
  multiply_shared<Storage, N, false, false>(c, a, b, add);
}

// a [64,16] and b [16,N] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply_rows(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                              bool add) {
  multiply_shared<Storage, N, false, true>(c, a, b, add);
}

// a in registers, b [16,N] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply(float (&c)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                         bool add) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    HYDRAC_WGMMA_OF_STORAGE(HYDRAC_WGMMA_REGISTERS, 64, 32, "32", "33", "34", "35", "36", "37")
  } else {
    HYDRAC_WGMMA_OF_STORAGE(HYDRAC_WGMMA_REGISTERS, 128, 64, "64", "65", "66", "67", "68", "69")
  }
}

// The two of 8 bits, e4m3: rows of both operands are what is summed over, 32 a matmul.
#define HYDRAC_WGMMA_SHARED_F8(N, COUNT, A, B, ADD)                                                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k32.f32.e4m3.e4m3 " HYDRAC_WGMMA_REGISTERS_##COUNT "}, %" A ", %" B ", add, 1, 1;\n}"    \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define HYDRAC_WGMMA_REGISTERS_F8(N, COUNT, A0, A1, A2, A3, B, ADD)                                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k32.f32.e4m3.e4m3 " HYDRAC_WGMMA_REGISTERS_##COUNT "}, {%" A0 ", %" A1 ", %" A2 ", %" A3 \
                                                                   "}, %" B ", add, 1, 1;\n}"            \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))

// c = (add ? c : 0) + a . b^T: a [64,32] and b [N,32] of e4m3 in shared memory.
template <int N>
__device__ __forceinline__ void multiply_f8(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                            bool add) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    HYDRAC_WGMMA_SHARED_F8(64, 32, "32", "33", "34");
  } else {
    HYDRAC_WGMMA_SHARED_F8(128, 64, "64", "65", "66");
  }
}

// a in registers: word i has four neighbours of row lane / 4 + 8 * (i % 2), from column lane % 4 * 4 + 16 *
// (i / 2) on.
template <int N>
__device__ __forceinline__ void multiply_f8(float (&c)[N / 8][4], const std::uint32_t (&a)[4],
                                            std::uint64_t b, bool add) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    HYDRAC_WGMMA_REGISTERS_F8(64, 32, "32", "33", "34", "35", "36", "37");
  } else {
    HYDRAC_WGMMA_REGISTERS_F8(128, 64, "64", "65", "66", "67", "68", "69");
  }
}

// wgmma is asynchronous. Orders earlier accesses to registers and shared memory before the wgmmas that
// follow.
__device__ __forceinline__ void fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes a group of matmuls.
__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Returns when all groups but the latest `pending` are complete.
template <int pending>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Stands before sums are read or written: the compiler does not know when matmuls write them.
template <int fragments>
__device__ __forceinline__ void fence_operands(float (&sums)[fragments][4]) {
#pragma unroll
  for (int n = 0; n < fragments; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sums[n][e])::"memory");
  }
}

#undef HYDRAC_WGMMA_REGISTERS_F8
#undef HYDRAC_WGMMA_SHARED_F8
#undef HYDRAC_WGMMA_OF_STORAGE
#undef HYDRAC_WGMMA_REGISTERS
#undef HYDRAC_WGMMA_SHARED
#undef HYDRAC_WGMMA_SUMS_96
#undef HYDRAC_WGMMA_SUMS_64
#undef HYDRAC_WGMMA_SUMS_32
#undef HYDRAC_WGMMA_SUMS_16
#undef HYDRAC_WGMMA_FOUR_SUMS
#undef HYDRAC_WGMMA_SUM
#undef HYDRAC_WGMMA_REGISTERS_96
#undef HYDRAC_WGMMA_REGISTERS_64
#undef HYDRAC_WGMMA_REGISTERS_32
#undef HYDRAC_WGMMA_REGISTERS_16

}  // namespace hydrac::wgmma
