// The forward of attention: out = softmax(scores of q k^T) v, and lse, the log of the softmax's denominator.
//
// A block of threads owns rows of queries and goes through the keys that they may see, a tile at a time, with
// a running maximum and sum (Dao: FlashAttention-2; 2023). Scores and probabilities stay in registers: the
// fragment that one matmul leaves is the operand that the next one takes.
#pragma once
#include "cuda/attention/dropout.cuh"
#include "cuda/attention/matmul.cuh"
#include "cuda/attention/query_block.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/scores.cuh"
#include "cuda/attention/softmax.cuh"

namespace hydrac::cuda {

template <class Config>
HYDRAC_FN constexpr ForwardPlaces places_of_forward() {
  return forward_places(Config::rows, Config::columns, Config::stages, Config::row_bytes);
}

template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_forward() {
  return {Config::rows, Config::threads, places_of_forward<Config>().bytes};
}

// lse [B,H,T] float. shape.scale is positive. How it is launched: cuda/attention/geometry.h.
template <class Config>
__device__ __forceinline__ void attention_forward(const typename Config::Sequence& shape,
                                                  Heads<const typename Config::Storage> q,
                                                  Heads<const typename Config::Storage> k,
                                                  Heads<const typename Config::Storage> v,
                                                  Heads<typename Config::Storage> out, float* lse,
                                                  const AttentionDropout& dropout) {
  using Matmul =
      MatmulOf<Config::family, typename Config::Storage, Config::row_tiles, Config::rows, Config::head_dim>;
  using Mask = typename Config::Mask;
  using Scores = typename Config::Scores;
  constexpr int row_tiles = Config::row_tiles, columns = Config::columns;
  constexpr int column_bytes = columns * Config::row_bytes;
  const ForwardPlaces places = places_of_forward<Config>();
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t queries = ptx::shared_address(shared);
  const std::uint32_t keys = queries + places.keys;
  const std::uint32_t values = queries + places.values;

  const Place place;
  const QueryBlock<Mask, Config::rows, columns> block(shape);
  RowLoader<Matmul, Config::rows, Config::head_dim, Config::threads>(q.token_stride)
      .start(queries, q.at(block.batch, block.first, block.head), block.count);
  const RowLoader<Matmul, columns, Config::head_dim, Config::threads> load_keys(k.token_stride),
      load_values(v.token_stride);
  const auto* k_from = k.at(block.batch, block.first_tile * columns, block.kv_head);
  const auto* v_from = v.at(block.batch, block.first_tile * columns, block.kv_head);
  const auto start = [&](int index, int stage) {
    const int valid = valid_rows<columns>(shape.tokens, (block.first_tile + index) * columns);
    load_keys.start(keys + stage * column_bytes, k_from, valid);
    load_values.start(values + stage * column_bytes, v_from, valid);
    k_from += columns * k.token_stride;
    v_from += columns * v.token_stride;
  };
  start(0, 0);

  const float scale2 = Scores::factor(shape) * kLog2E;
  RunningSoftmax<row_tiles, Mask::hides_earlier> softmax;
  Fragment<row_tiles, Config::padded_dim> sums;
  WeightsOf<Matmul, columns> weights;
  const auto multiply_scores = [&](Fragment<row_tiles, columns>& scores, int stage) {
    Matmul::begin();
    Matmul::scores(scores, place, queries, keys + stage * column_bytes);
    Matmul::commit();
  };
  // From matmuls to probabilities; whether earlier sums must be rescaled.
  const auto apply_softmax = [&](Fragment<row_tiles, columns>& scores, int index,
                                 float(&rescale)[row_tiles][2]) {
    const int tile = block.first_tile + index;
    if constexpr (!Scores::is_linear) score_matmuls<Scores>(scores, shape);
    if (block.needs_mask(tile)) {
      mask<Mask, false>(scores, place, block.first, tile * columns, shape, -kInfinity);
    }
    const bool moved = softmax.step(scores, scale2, rescale);
    if constexpr (Config::has_dropout) {
      // Behind the softmax: its sum is of all probabilities.
      const std::uint64_t dropout_index = dropout_base(shape, block.row);
      for_kept<false, row_tiles, columns>(dropout, dropout_index, place, block.first, tile * columns,
                                          shape.tokens, [&](int m, int n, int e, bool is_kept) {
                                            if (!is_kept) scores.at[m][n][e] = 0.0f;
                                          });
    }
    return moved;
  };
  const auto add_values = [&](int stage, bool add) {
    Matmul::fence_operands(sums);
    Matmul::begin();
    Matmul::accumulate(sums, place, weights, values + stage * column_bytes, add);
    Matmul::commit();
  };

  if constexpr (Config::family == AttentionFamily::hopper) {
    // A tile's values are multiplied while the next tile's scores become probabilities (Shah et al.:
    // FlashAttention-3; 2024).
    int before = 0;
    const auto first = [&](int stage) {
      Fragment<row_tiles, columns> scores;
      float rescale[row_tiles][2];
      multiply_scores(scores, stage);
      Matmul::wait_for_all();
      Matmul::fence_operands(scores);
      apply_softmax(scores, 0, rescale);
      Matmul::round(weights, scores);
    };
    const auto compute = [&](int index, int stage) {
      Fragment<row_tiles, columns> scores;
      float rescale[row_tiles][2];
      multiply_scores(scores, stage);
      add_values(before, index > 1);
      Matmul::wait_for_all_but_last();
      Matmul::fence_operands(scores);
      const bool moved = apply_softmax(scores, index, rescale);
      Matmul::wait_for_all();
      Matmul::fence_operands(sums);
      if (moved) sums.scale_rows(rescale);
      Matmul::round(weights, scores);
      before = stage;
    };
    stream_tiles<Matmul, Config::stages>(block.tiles, start, first, compute);
    add_values(before, block.tiles > 1);
    Matmul::wait_for_all();
    Matmul::fence_operands(sums);
  } else {
    const auto compute = [&](int index, int stage) {
      Fragment<row_tiles, columns> scores;
      float rescale[row_tiles][2];
      multiply_scores(scores, stage);
      if (apply_softmax(scores, index, rescale) && index > 0) sums.scale_rows(rescale);
      Matmul::round(weights, scores);
      add_values(stage, index > 0);
    };
    Matmul::clear(sums);
    stream_tiles<Matmul, Config::stages>(
        block.tiles, start, [&](int stage) { compute(0, stage); }, compute);
  }

  softmax.finish();
  float* lse_to = lse + static_cast<std::int64_t>(block.row) * shape.tokens + block.first;
  float factor[row_tiles][2];
  for_rows<row_tiles>(place, [&](int m, int half, int row) {
    factor[m][half] = (Config::has_dropout ? dropout.keep_scale : 1.0f) / softmax.sum[m][half];
    if (place.lane % 4 == 0 && row < block.count) {
      lse_to[row] = softmax.shift[m][half] * kLn2 + log(softmax.sum[m][half]);
    }
  });
  store_rows<Config::head_dim>(out.at(block.batch, block.first, block.head), out.token_stride, block.count,
                               place, 0, sums, factor);
}

}  // namespace hydrac::cuda
