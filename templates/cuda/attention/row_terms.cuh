// The query terms where queries are a matmul's rows: made of lse, out and d_out.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/softmax.cuh"
#include "cuda/types.cuh"

namespace hydrac {

// Calls keep(row, terms) with delta and lse2 of each of the block's rows, in one thread; those of rows from
// valid_rows on are zeros. Eight threads share a row; several rows' loads are in flight at once.
template <int rows, int threads, int head_dim, class Storage, class Keep>
__device__ __forceinline__ void query_terms(const float* lse, const Storage* out, std::int64_t out_stride,
                                            const Storage* d_out, std::int64_t d_out_stride, int valid_rows,
                                            Keep&& keep) {
  constexpr int elements = 16 / sizeof(Storage);
  constexpr int rows_at_once = threads / 8, rounds = rows / rows_at_once;
  const int part = static_cast<int>(threadIdx.x) % 8, first_row = static_cast<int>(threadIdx.x) / 8;
  float sums[rounds], lses[rounds];
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int row = first_row + round * rows_at_once;
    const int from = row < valid_rows ? row : valid_rows - 1;  // loads need no branch
    lses[round] = lse[from];
    sums[round] = 0.0f;
#pragma unroll
    for (int first = 0; first < head_dim; first += 8 * elements) {
      const int column = first + part * elements;
      if (column >= head_dim) break;
      const auto a = load<elements>(out + from * out_stride + column);
      const auto b = load<elements>(d_out + from * d_out_stride + column);
#pragma unroll
      for (int i = 0; i < elements; ++i) sums[round] = fma(to_float(a.at[i]), to_float(b.at[i]), sums[round]);
    }
  }
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int row = first_row + round * rows_at_once;
    const bool valid = row < valid_rows;
    float sum = sums[round];
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
    if (part == 0) keep(row, QueryTerms{valid ? lses[round] * kLog2E : 0.0f, valid ? sum : 0.0f});
  }
}

}  // namespace hydrac
