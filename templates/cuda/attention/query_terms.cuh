// Terms of each query that the gradients of attention need beside q and d_out.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/gradient_workspace.cuh"
#include "cuda/attention/row_terms.cuh"

namespace hydrac::cuda {

template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_query_terms() {
  return {Config::rows, Config::threads, 0};
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
  query_terms<Config::rows, Config::threads, Config::head_dim>(
      lse + first_query, out.at(batch, first, head), out.token_stride, d_out.at(batch, first, head),
      d_out.token_stride, valid, [&](int own, const QueryTerms& terms) {
        if (own < valid) workspace.terms[first_query + own] = terms;
      });
  constexpr int tiles = Config::rows / kGradientColumns;  // as many in each row of heads as the blocks cover
  if (threadIdx.x < tiles) workspace.turns[index * tiles + static_cast<int>(threadIdx.x)] = 0;
  if (index == 0 && threadIdx.x == 0) *workspace.next_piece = 0;
}

}  // namespace hydrac::cuda
