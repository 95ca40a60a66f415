// Hopper's warpgroup products (sm_90a): 128 threads multiply [64,16] by [16,N], the right side and optionally
// the left in shared memory, 128-byte swizzled. See "Asynchronous warpgroup level matrix instructions" in the
// PTX manual.
#pragma once
#include "cuda/ptx.cuh"

namespace hydrac::wgmma {

// Describes an operand: rows of 128 bytes, swizzled in groups of eight rows, 1024 bytes each. `panel_bytes`
// is the distance to the next 64 columns; only operands read across rows (transposed) that are wider use it.
// `offset` bytes are added to the address. Shared memory ends below 2^18, so the fields of the low word do
// not touch.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t panel_bytes,
                                                    std::uint32_t offset) {
  constexpr std::uint32_t swizzle_128_bytes = 1u << 30, group_bytes = 1024;
  const std::uint32_t low = (address >> 4) + ((panel_bytes >> 4 << 16) + (offset >> 4));
  return static_cast<std::uint64_t>(swizzle_128_bytes | group_bytes >> 4) << 32 | low;
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

// c = (add ? c : 0) + a . b: both in shared memory. A_ROWS says how a lies: 0 as [64,16], the 16 contiguous,
// 1 as [16,64], the 64 contiguous; B_ROWS 0 says that b lies as [N,16], the 16 contiguous, 1 as [16,N], the N
// contiguous.
#define HYDRAC_WGMMA_SHARED(N, TYPE, COUNT, A, B, ADD, A_ROWS, B_ROWS)                                   \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT                               \
               "}, %" A ", %" B ", add, 1, 1, " #A_ROWS ", " #B_ROWS ";\n}"                              \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))

// c = (add ? c : 0) + a . b: a [64,16] in registers, b [16,N] in shared memory, the N contiguous.
#define HYDRAC_WGMMA_REGISTERS(N, TYPE, COUNT, A0, A1, A2, A3, B, ADD)                                   \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT                               \
               "}, {%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" B ", add, 1, 1, 1;\n}"                       \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))

// c = (add ? c : 0) + a . b: both in shared memory, b as [N,16], the 16 contiguous. The operand A_ROWS says
// how a lies: 0 as [64,16], the 16 contiguous, 1 as [16,64], the 64 contiguous.
#define HYDRAC_WGMMA_TILE(N, TYPE, COUNT, A, B, ADD, A_ROWS)                                                 \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N     \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT "}, %" A ", %" B                  \
                                                                           ", add, 1, 1, %" A_ROWS ", 0;\n}" \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                                   \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(a_transposed ? 1 : 0))

// a and b [N,16] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b, bool add) {
  static_assert(N == 64 || N == 128 || N == 192);
  if constexpr (N == 64 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(64, "bf16", 32, "32", "33", "34", 0, 0);
  } else if constexpr (N == 64) {
    HYDRAC_WGMMA_SHARED(64, "f16", 32, "32", "33", "34", 0, 0);
  } else if constexpr (N == 128 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(128, "bf16", 64, "64", "65", "66", 0, 0);
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA_SHARED(128, "f16", 64, "64", "65", "66", 0, 0);
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(192, "bf16", 96, "96", "97", "98", 0, 0);
  } else {
    HYDRAC_WGMMA_SHARED(192, "f16", 96, "96", "97", "98", 0, 0);
  }
}

// a [64,16] and b [16,N] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply_rows(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                              bool add) {
  static_assert(N == 32 || N == 64 || N == 128 || N == 192);
  if constexpr (N == 32 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(32, "bf16", 16, "16", "17", "18", 0, 1);
  } else if constexpr (N == 32) {
    HYDRAC_WGMMA_SHARED(32, "f16", 16, "16", "17", "18", 0, 1);
  } else if constexpr (N == 64 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(64, "bf16", 32, "32", "33", "34", 0, 1);
  } else if constexpr (N == 64) {
    HYDRAC_WGMMA_SHARED(64, "f16", 32, "32", "33", "34", 0, 1);
  } else if constexpr (N == 128 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(128, "bf16", 64, "64", "65", "66", 0, 1);
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA_SHARED(128, "f16", 64, "64", "65", "66", 0, 1);
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(192, "bf16", 96, "96", "97", "98", 0, 1);
  } else {
    HYDRAC_WGMMA_SHARED(192, "f16", 96, "96", "97", "98", 0, 1);
  }
}

// a [16,64] and b [16,N] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply_columns(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                                 bool add) {
  static_assert(N == 128 || N == 192);
  if constexpr (N == 128 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(128, "bf16", 64, "64", "65", "66", 1, 1);
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA_SHARED(128, "f16", 64, "64", "65", "66", 1, 1);
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA_SHARED(192, "bf16", 96, "96", "97", "98", 1, 1);
  } else {
    HYDRAC_WGMMA_SHARED(192, "f16", 96, "96", "97", "98", 1, 1);
  }
}

// a in registers, b [16,N] in shared memory.
template <class Storage, int N>
__device__ __forceinline__ void multiply(float (&c)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                         bool add) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_REGISTERS(64, "bf16", 32, "32", "33", "34", "35", "36", "37");
  } else if constexpr (N == 64) {
    HYDRAC_WGMMA_REGISTERS(64, "f16", 32, "32", "33", "34", "35", "36", "37");
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA_REGISTERS(128, "bf16", 64, "64", "65", "66", "67", "68", "69");
  } else {
    HYDRAC_WGMMA_REGISTERS(128, "f16", 64, "64", "65", "66", "67", "68", "69");
  }
}

// b [N,16], the 16 contiguous, and a in shared memory, which lies as [16,64], the 64 contiguous, if
// `a_transposed`.
template <class Storage, int N, bool a_transposed>
__device__ __forceinline__ void multiply_tile(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                              bool add) {
  static_assert(N == 32 || N == 64 || N == 128 || N == 192);
  if constexpr (N == 32 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_TILE(32, "bf16", 16, "16", "17", "18", "19");
  } else if constexpr (N == 32) {
    HYDRAC_WGMMA_TILE(32, "f16", 16, "16", "17", "18", "19");
  } else if constexpr (N == 64 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_TILE(64, "bf16", 32, "32", "33", "34", "35");
  } else if constexpr (N == 64) {
    HYDRAC_WGMMA_TILE(64, "f16", 32, "32", "33", "34", "35");
  } else if constexpr (N == 128 && kIsBf16<Storage>) {
    HYDRAC_WGMMA_TILE(128, "bf16", 64, "64", "65", "66", "67");
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA_TILE(128, "f16", 64, "64", "65", "66", "67");
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA_TILE(192, "bf16", 96, "96", "97", "98", "99");
  } else {
    HYDRAC_WGMMA_TILE(192, "f16", 96, "96", "97", "98", "99");
  }
}

#undef HYDRAC_WGMMA_TILE
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
