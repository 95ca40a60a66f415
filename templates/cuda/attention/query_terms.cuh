// What the gradients of attention need of each query beside q and d_out.
#pragma once
#include "cuda/attention/gradient_order.cuh"
#include "cuda/attention/softmax.cuh"

namespace hydrac::cuda {

// Calls keep(row, terms) with delta and lse2 of each of the block's rows, in one thread; those of rows from
// valid_rows on are zeros. Eight threads share a row; several rows' loads are in flight at once.
template <class Config, class Keep>
__device__ __forceinline__ void query_terms(const float* lse, const typename Config::Storage* out,
                                            std::int64_t out_stride, const typename Config::Storage* d_out,
                                            std::int64_t d_out_stride, int valid_rows, Keep&& keep) {
  constexpr int elements = 16 / sizeof(typename Config::Storage);
  constexpr int rows_at_once = Config::threads / 8, rounds = Config::rows / rows_at_once;
  const int part = static_cast<int>(threadIdx.x) % 8, first_row = static_cast<int>(threadIdx.x) / 8;
  float sums[rounds], lses[rounds];
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int row = first_row + round * rows_at_once;
    const int from = row < valid_rows ? row : valid_rows - 1;  // loads need no branch
    lses[round] = lse[from];
    sums[round] = 0.0f;
#pragma unroll
    for (int first = 0; first < Config::head_dim; first += 8 * elements) {
      const int column = first + part * elements;
      if (column >= Config::head_dim) break;
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

// Runs before attention_gradients, whose workspace it prepares (cuda/attention/geometry.h has the launch):
// all terms, and no block has added to any tile of d_q. out, d_out: [B,T,H*D] seen as heads; lse [B,H,T] from
// the forward pass.
template <class Config>
__device__ __forceinline__ void attention_query_terms(const AttentionShape& shape,
                                                      Heads<const typename Config::Storage> out,
                                                      const float* lse,
                                                      Heads<const typename Config::Storage> d_out,
                                                      void* memory) {
  const GradientWorkspace workspace(shape, memory);
  const int blocks = (shape.tokens + Config::rows - 1) / Config::rows;
  const int index = static_cast<int>(blockIdx.x), row = index / blocks;
  const int batch = row / shape.heads, head = row % shape.heads, first = index % blocks * Config::rows;
  const int valid = min(shape.tokens - first, Config::rows);
  const std::int64_t first_query = static_cast<std::int64_t>(row) * shape.tokens + first;
  query_terms<Config>(lse + first_query, out.at(batch, first, head), out.token_stride,
                      d_out.at(batch, first, head), d_out.token_stride, valid,
                      [&](int own, const QueryTerms& terms) {
                        if (own < valid) workspace.terms[first_query + own] = terms;
                      });
  constexpr int tiles = Config::rows / kGradientColumns;  // as many in each row of heads as the blocks cover
  if (threadIdx.x < tiles) workspace.turns[index * tiles + static_cast<int>(threadIdx.x)] = 0;
  if (index == 0 && threadIdx.x == 0) *workspace.next_piece = 0;
}

}  // namespace hydrac::cuda
