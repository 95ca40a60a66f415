// The warpgroup products of the product kernel: [64,16] by [16,N] for N = 128 and 256, both sides in shared
// memory, 128-byte swizzled. Descriptors are cuda/attention/wgmma.cuh's.
#pragma once
#include "cuda/attention/wgmma.cuh"

namespace hydrac::cuda::wgmma {

template <bool narrow>
__device__ __forceinline__ std::uint64_t descriptor2(std::uint32_t address, std::uint32_t panel_bytes,
                                                     std::uint32_t offset) {
  constexpr std::uint32_t swizzle = narrow ? 2u << 30 : 1u << 30, group_bytes = narrow ? 512 : 1024;
  const std::uint32_t low = (address >> 4) + ((panel_bytes >> 4 << 16) + (offset >> 4));
  return static_cast<std::uint64_t>(swizzle | group_bytes >> 4) << 32 | low;
}

#define HYDRAC_WGMMA_REGISTERS_64                                                                    \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "  \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "  \
  "%59, %60, %61, %62, %63"
#define HYDRAC_WGMMA_REGISTERS_128                                                                    \
  HYDRAC_WGMMA_REGISTERS_64                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, " \
  "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "  \
  "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define HYDRAC_WGMMA_SUMS_4(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define HYDRAC_WGMMA_SUMS_16(n) \
  HYDRAC_WGMMA_SUMS_4(n), HYDRAC_WGMMA_SUMS_4(n + 1), HYDRAC_WGMMA_SUMS_4(n + 2), HYDRAC_WGMMA_SUMS_4(n + 3)
#define HYDRAC_WGMMA_SUMS_64 \
  HYDRAC_WGMMA_SUMS_16(0), HYDRAC_WGMMA_SUMS_16(4), HYDRAC_WGMMA_SUMS_16(8), HYDRAC_WGMMA_SUMS_16(12)
#define HYDRAC_WGMMA_SUMS_128                                                                         \
  HYDRAC_WGMMA_SUMS_64, HYDRAC_WGMMA_SUMS_16(16), HYDRAC_WGMMA_SUMS_16(20), HYDRAC_WGMMA_SUMS_16(24), \
      HYDRAC_WGMMA_SUMS_16(28)
#define HYDRAC_WGMMA(N, TYPE, COUNT, A, B, ADD, READ_ACROSS)                                             \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k16.f32." TYPE "." TYPE " " HYDRAC_WGMMA_REGISTERS_##COUNT                               \
               "}, %" A ", %" B ", add, 1, 1, 0, %" READ_ACROSS ";\n}"                                   \
               : HYDRAC_WGMMA_SUMS_##COUNT                                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(b_transposed ? 0 : 1))

// c = (add ? c : 0) + a . b: a [64,16] with the 16 contiguous; b [N,16] with the 16 contiguous if
// `b_transposed`, else [16,N] with the N contiguous.
template <class Storage, int N, bool b_transposed>
__device__ __forceinline__ void multiply_tile(float (*c)[4], std::uint64_t a, std::uint64_t b, bool add) {
  static_assert(N == 128 || N == 256);
  if constexpr (N == 128 && kIsBf16<Storage>) {
    HYDRAC_WGMMA(128, "bf16", 64, "64", "65", "66", "67");
  } else if constexpr (N == 128) {
    HYDRAC_WGMMA(128, "f16", 64, "64", "65", "66", "67");
  } else if constexpr (kIsBf16<Storage>) {
    HYDRAC_WGMMA(256, "bf16", 128, "128", "129", "130", "131");
  } else {
    HYDRAC_WGMMA(256, "f16", 128, "128", "129", "130", "131");
  }
}

#undef HYDRAC_WGMMA
#undef HYDRAC_WGMMA_SUMS_128
#undef HYDRAC_WGMMA_SUMS_64
#undef HYDRAC_WGMMA_SUMS_16
#undef HYDRAC_WGMMA_SUMS_4
#undef HYDRAC_WGMMA_REGISTERS_128
#undef HYDRAC_WGMMA_REGISTERS_64

}  // namespace hydrac::cuda::wgmma
