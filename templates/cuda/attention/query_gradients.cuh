// The first half of attention's backward: d_q, and the query terms that the second half reads.
//
// Probabilities are recomputed from q, k and lse. With P the probabilities, f what each of them is
// multiplied with behind the softmax (1 where nothing is dropped), s' the derivative of the scores and delta
// = rowsum(d_out * out):
//   d_s = s' * P * (f * (d_out v^T) - delta),  d_q = scale * d_s k.
// The backward pass is two kernels, one that owns queries and one that owns keys: scores and d_out v^T are
// computed twice, seven matmuls instead of five, but nothing is summed across blocks. So it is deterministic
// without atomics or partial sums in memory, and d_s goes from one matmul to the next in registers.
#pragma once
#include "cuda/attention/dropout.cuh"
#include "cuda/attention/matmul.cuh"
#include "cuda/attention/query_block.cuh"
#include "cuda/attention/row_terms.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/scores.cuh"

namespace hydrac::cuda {

template <class Config>
HYDRAC_FN constexpr QueryGradientPlaces places_of_query_gradients() {
  return query_gradient_places(Config::rows, Config::columns, Config::stages, Config::row_bytes);
}

template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_query_gradients() {
  return {Config::rows, Config::threads, places_of_query_gradients<Config>().bytes};
}

// Runs before attention_key_gradients (cuda/attention/geometry.h has the launch). Writes all of d_q and of
// `terms` [B,H,T]. out, d_out: [B,T,H*D] seen as heads; lse [B,H,T] from the forward pass.
template <class Config>
__device__ __forceinline__ void attention_query_gradients(
    const typename Config::Sequence& shape, Heads<const typename Config::Storage> q,
    Heads<const typename Config::Storage> k, Heads<const typename Config::Storage> v,
    Heads<const typename Config::Storage> out, const float* lse, Heads<const typename Config::Storage> d_out,
    Heads<typename Config::Storage> d_q, QueryTerms* terms, const AttentionDropout& dropout) {
  using Matmul =
      MatmulOf<Config::family, typename Config::Storage, Config::row_tiles, Config::rows, Config::head_dim>;
  using Mask = typename Config::Mask;
  using Scores = typename Config::Scores;
  constexpr int row_tiles = Config::row_tiles, columns = Config::columns;
  constexpr int column_bytes = columns * Config::row_bytes;
  const QueryGradientPlaces places = places_of_query_gradients<Config>();
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t queries = ptx::shared_address(shared);
  const std::uint32_t d_outs = queries + places.d_outs;
  const std::uint32_t keys = queries + places.keys;
  const std::uint32_t values = queries + places.values;
  const std::uint32_t shared_terms = queries + places.terms;

  const Place place;
  const QueryBlock<Mask, Config::rows, columns> block(shape);
  const auto* d_out_from = d_out.at(block.batch, block.first, block.head);
  RowLoader<Matmul, Config::rows, Config::head_dim, Config::threads>(q.token_stride)
      .start(queries, q.at(block.batch, block.first, block.head), block.count);
  RowLoader<Matmul, Config::rows, Config::head_dim, Config::threads>(d_out.token_stride)
      .start(d_outs, d_out_from, block.count);
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
  const std::int64_t first_row = static_cast<std::int64_t>(block.row) * shape.tokens + block.first;
  query_terms<Config::rows, Config::threads, Config::head_dim>(
      lse + first_row, out.at(block.batch, block.first, block.head), out.token_stride, d_out_from,
      d_out.token_stride, block.count, [&](int row, const QueryTerms& own) {
        ptx::store_shared(shared_terms + row * sizeof(QueryTerms), __builtin_bit_cast(std::uint64_t, own));
        if (row < block.count) terms[first_row + row] = own;
      });
  __syncthreads();  // the terms of other threads' queries are there
  QueryTerms own[row_tiles][2];
  for_rows<row_tiles>(place, [&](int m, int half, int row) {
    own[m][half] =
        __builtin_bit_cast(QueryTerms, ptx::load_shared<2>(shared_terms + row * sizeof(QueryTerms)));
  });

  const float scale2 = Scores::factor(shape) * kLog2E;
  Fragment<row_tiles, Config::padded_dim> sums;
  const auto compute = [&](int index, int stage) {
    const int tile = block.first_tile + index;
    Fragment<row_tiles, columns> scores, gradients;
    Matmul::wait_for_all();  // d_q of the tile before
    Matmul::begin();
    Matmul::scores(scores, place, queries, keys + stage * column_bytes);
    Matmul::commit();
    Matmul::scores(gradients, place, d_outs, values + stage * column_bytes);
    Matmul::commit();
    Matmul::wait_for_all_but_last();  // all but d_out v^T
    Matmul::fence_operands(scores);
    if constexpr (!Scores::is_linear) score_matmuls<Scores>(scores, shape);
    for_elements<row_tiles, columns>([&](int m, int n, int e) {
      float& x = scores.at[m][n][e];
      const float probability = ptx::exp2(fma(x, scale2, -own[m][e / 2].lse2));
      x = Scores::is_linear ? probability : probability * Scores::derivative(x);
    });
    if (block.needs_mask(tile)) {
      mask<Mask, false>(scores, place, block.first, tile * columns, shape, 0.0f);
    }
    Matmul::wait_for_all();
    Matmul::fence_operands(gradients);
    if constexpr (Config::has_dropout) {
      const std::uint64_t dropout_index = dropout_base(shape, block.row);
      for_kept<false, row_tiles, columns>(dropout, dropout_index, place, block.first, tile * columns,
                                          shape.tokens, [&](int m, int n, int e, bool is_kept) {
                                            gradients.at[m][n][e] =
                                                is_kept ? gradients.at[m][n][e] * dropout.keep_scale : 0.0f;
                                          });
    }
    for_elements<row_tiles, columns>([&](int m, int n, int e) {
      gradients.at[m][n][e] = scores.at[m][n][e] * (gradients.at[m][n][e] - own[m][e / 2].delta);
    });
    WeightsOf<Matmul, columns> weights;
    Matmul::round(weights, gradients);
    Matmul::fence_operands(sums);
    Matmul::begin();
    Matmul::accumulate(sums, place, weights, keys + stage * column_bytes, index > 0);
    Matmul::commit();
  };
  const auto first = [&](int stage) { compute(0, stage); };
  Matmul::clear(sums);
  stream_tiles<Matmul, Config::stages>(block.tiles, start, first, compute);
  Matmul::wait_for_all();
  Matmul::fence_operands(sums);

  store_rows<Config::head_dim>(d_q.at(block.batch, block.first, block.head), d_q.token_stride, block.count,
                               place, 0, sums, shape.scale);
}

}  // namespace hydrac::cuda
