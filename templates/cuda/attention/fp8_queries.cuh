// The queries of one warpgroup of the forward pass of 8 bits.
#pragma once
#include "cuda/attention/fp8_rounding.cuh"
#include "cuda/attention/fp8_shared.cuh"

namespace hydrac::cuda {

// Rounds 64 rows to shared memory, each with a scale of its own, and sets the factor of the scores of each
// of this thread's two rows to `scale` times that. Rows from valid_rows on are zeros.
template <class Config>
__device__ __forceinline__ void load_fp8_queries(const Fp8Shared<Config>& shared, int group,
                                                 const typename Config::Storage* from,
                                                 std::int64_t token_stride, int valid_rows, float scale,
                                                 float (&factor)[2]) {
  constexpr int chunks = Config::head_dim / 8, rows_at_once = 128 / chunks, rounds = 64 / rows_at_once;
  const int thread = static_cast<int>(threadIdx.x) % 128, chunk = thread % chunks;
  const std::uint32_t to = shared.queries(group), scales = shared.row_scales(group);
  Vector<typename Config::Storage, 8> x[rounds];
#pragma unroll
  for (int i = 0; i < rounds; ++i)
    x[i] = load_f8_chunk(from, token_stride, valid_rows, thread / chunks + i * rows_at_once, chunk);
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const int row = thread / chunks + i * rows_at_once;
    float largest = largest_of(x[i], kFp8Least);
#pragma unroll
    for (int distance = chunks / 2; distance > 0; distance /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
    const float row_scale = largest / kFp8Largest;
    const auto words = f8_words(x[i], 1.0f / row_scale);
    ptx::store_shared(to + fp8_chunk_offset(Config::head_dim, row, chunk / 2) + chunk % 2 * 8,
                      words.at[0] | static_cast<std::uint64_t>(words.at[1]) << 32);
    if (chunk == 0) ptx::store_shared(scales + row * 4, float_bits(row_scale * scale));
  }
  ptx::fence_shared_memory();
  barrier::block_sync<128>(1 + group);  // the warpgroup's words and scales are there
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    factor[half] = float_from_bits(ptx::load_shared<1>(scales + row * 4).at[0]);
  }
}

}  // namespace hydrac::cuda
