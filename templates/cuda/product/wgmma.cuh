// The warpgroup products of the product kernel: [64,16] by [16,N] for N = 128 and 192, both sides in
// shared memory, 128-byte swizzled. Descriptors are cuda/attention/wgmma.cuh's.
#pragma once
#include "cuda/attention/wgmma.cuh"

namespace hydrac::cuda::wgmma {

#define HYDRAC_WGMMA_REGISTERS_64                                                                    \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "  \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "  \
  "%59, %60, %61, %62, %63"
#define HYDRAC_WGMMA_REGISTERS_96                                                                     \
  HYDRAC_WGMMA_REGISTERS_64                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HYDRAC_WGMMA_SUMS_4(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define HYDRAC_WGMMA_SUMS_16(n) \
  HYDRAC_WGMMA_SUMS_4(n), HYDRAC_WGMMA_SUMS_4(n + 1), HYDRAC_WGMMA_SUMS_4(n + 2), HYDRAC_WGMMA_SUMS_4(n + 3)
#define HYDRAC_WGMMA_SUMS_64 \
  HYDRAC_WGMMA_SUMS_16(0), HYDRAC_WGMMA_SUMS_16(4), HYDRAC_WGMMA_SUMS_16(8), HYDRAC_WGMMA_SUMS_16(12)
#define HYDRAC_WGMMA_SUMS_96 HYDRAC_WGMMA_SUMS_64, HYDRAC_WGMMA_SUMS_16(16), HYDRAC_WGMMA_SUMS_16(20)
#define HYDRAC_WGMMA(N, TYPE, COUNT, A, B, ADD, READ_ACROSS)                                             \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT                               \
               "}, %" A ", %" B ", add, 1, 1, %" READ_ACROSS ", 0;\n}"                                   \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposed))

// c = (add ? c : 0) + a . b^T: b [N,16] with the 16 contiguous; a [64,16] with the 16 contiguous, or the 64
// if `a_transposed`.
template <class Storage, int N, bool a_transposed>
__device__ __forceinline__ void multiply_tile(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b,
                                              bool add) {
  static_assert(N == 128 || N == 192);
  constexpr int kTransposed = a_transposed ? 1 : 0;
  if constexpr (N == 128 && kIsBf16<Storage>) {
    HYDRAC_WGMMA(128, "bf16", 64, "64", "65", "66", "67");
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA(128, "f16", 64, "64", "65", "66", "67");
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA(192, "bf16", 96, "96", "97", "98", "99");
  } else {
    HYDRAC_WGMMA(192, "f16", 96, "96", "97", "98", "99");
  }
}

#undef HYDRAC_WGMMA
#undef HYDRAC_WGMMA_SUMS_96
#undef HYDRAC_WGMMA_SUMS_64
#undef HYDRAC_WGMMA_SUMS_16
#undef HYDRAC_WGMMA_SUMS_4
#undef HYDRAC_WGMMA_REGISTERS_96
#undef HYDRAC_WGMMA_REGISTERS_64

}  // namespace hydrac::cuda::wgmma
