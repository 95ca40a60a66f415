// The backward of attention: recomputes each tile of probabilities from q, k and the saved log-sum-exp, then
// adds its share to dq, dk and dv in a fixed order. See attention.h for what the functions take.
#pragma once
#include "cpu/attention_tile.h"

namespace hydrac::cpu {
namespace detail {

template <int head_dim>
struct alignas(64) BackwardScratch {
  float queries[head_dim * kQueryTile];        // query_factor() * q, transposed: [head_dim, query]
  float d_out[head_dim * kQueryTile];          // dout, transposed
  float probabilities[kKeyTile * kQueryTile];  // [key, query]; scores before, what dv is made of after
  float d_scores[kKeyTile * kQueryTile];       // d probabilities before
  float lse[kQueryTile];
  float delta[kQueryTile];  // dout . out of each query: what the softmax's gradient subtracts
};

// Work is split into (batch, kv head, part): a part takes every parts-th block of queries of the heads that
// share the kv head. More parts than one cost a copy of dk and dv each, so there are only as many as keep
// many threads busy; the number depends on the shape alone.
constexpr std::int64_t kUnitsWanted = 32;
constexpr std::int64_t backward_items(const AttentionShape& shape) {
  return shape.heads / shape.kv_heads * divide_up(shape.tokens, kQueryTile);
}
constexpr std::int64_t backward_parts(const AttentionShape& shape) {
  const std::int64_t parts = divide_up(kUnitsWanted, shape.batch * shape.kv_heads);
  return parts < backward_items(shape) ? parts : backward_items(shape);
}

// dk and dv as one part of the work sums them: token rows of head_dim floats.
struct KeyGradients {
  float *dk, *dv;
  std::int64_t dk_stride, dv_stride;
};

// From scores and d probabilities to what dv is made of and d scores.
template <int head_dim, class Scores, bool has_dropout>
inline void softmax_gradient_tile(const AttentionShape& shape, const AttentionDropout& dropout,
                                  const Tile& tile, BackwardScratch<head_dim>& scratch) {
  for (int v = 0; v < tile.vectors(); ++v) {
    const int keys = tile.keys_of_vector(v);
    const float* lse = scratch.lse + v * simd::kLanes;
    const float* delta = scratch.delta + v * simd::kLanes;
    for (int key = 0; key < keys; ++key) {
      float* probabilities = scratch.probabilities + key * kQueryTile + v * simd::kLanes;
      float* d_scores = scratch.d_scores + key * kQueryTile + v * simd::kLanes;
      float factors[simd::kLanes];
      if constexpr (has_dropout) dropout_factors(shape, dropout, tile, v, key, factors);
#pragma omp simd simdlen(simd::kLanes)
      for (int lane = 0; lane < simd::kLanes; ++lane) {
        const float value = probabilities[lane];
        const float score = Scores::is_linear ? value : Scores::factor(shape) * value;
        const float probability = exp(score - lse[lane]);
        const float factor = has_dropout ? factors[lane] : 1.0f;
        const float d_score = probability * (d_scores[lane] * factor - delta[lane]) * shape.scale;
        // A masked value is -infinity, and its derivative no number.
        d_scores[lane] = Scores::is_linear    ? d_score
                         : probability > 0.0f ? d_score * Scores::derivative(value)
                                              : 0.0f;
        probabilities[lane] = probability * factor;
      }
    }
  }
}

// rows_out[key] += tile[key, :] . rows for each key: dv from the probabilities and dout, dk from d scores and
// q.
template <int head_dim>
inline void add_to_keys(const Tile& tile, const float* scores, const float* rows, std::int64_t row_stride,
                        float* rows_out, std::int64_t out_stride) {
  constexpr int lanes = simd::lanes_for(head_dim);
  simd::for_row_groups(tile.keys, [&](auto count, int key) {
    const int first = tile.first_query_of(key) > 0 ? tile.first_query_of(key) : 0;
    simd::matmul_rows<lanes, count>(simd::Start::add, head_dim / lanes, tile.queries - first,
                                    {scores + key * kQueryTile + first, kQueryTile, 1},
                                    rows + first * row_stride, row_stride, rows_out + key * out_stride,
                                    out_stride);
  });
}

// dq[query] = start(dq[query]) + d_scores[:, query] . keys
template <int head_dim>
inline void add_to_queries(simd::Start start, const Tile& tile, const float* d_scores, const float* keys,
                           std::int64_t key_stride, float* dq, std::int64_t dq_stride) {
  constexpr int lanes = simd::lanes_for(head_dim);
  simd::for_row_groups(tile.queries, [&](auto count, int query) {
    simd::matmul_rows<lanes, count>(start, head_dim / lanes, tile.keys_of(query + count),
                                    {d_scores + query, 1, kQueryTile}, keys, key_stride,
                                    dq + query * dq_stride, dq_stride);
  });
}

// a . b of each of the block's rows.
template <int head_dim>
inline void row_dots(int rows, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
                     float* to) {
  constexpr int lanes = simd::lanes_for(head_dim);
  for (int row = 0; row < rows; ++row) {
    simd::Vector<lanes> sum{};
    for (int d = 0; d < head_dim; d += lanes) {
      sum += simd::load<lanes>(a + row * a_stride + d) * simd::load<lanes>(b + row * b_stride + d);
    }
    to[row] = simd::sum_lanes<lanes>(sum);
  }
}

template <int head_dim, class Mask, class Scores, bool has_dropout, class Shape>
inline void backward_block(const Shape& shape, Tile tile, const ConstHeads& q, const ConstHeads& k,
                           const ConstHeads& v, const ConstHeads& out, const float* lse,
                           const ConstHeads& dout, const MutableHeads& dq, const KeyGradients& sums,
                           const AttentionDropout& dropout, BackwardScratch<head_dim>& scratch) {
  const std::int64_t kv_head = tile.head / (shape.heads / shape.kv_heads);
  const float* q_rows = q.at(tile.batch, tile.first_query, tile.head);
  const float* dout_rows = dout.at(tile.batch, tile.first_query, tile.head);
  float* dq_rows = dq.at(tile.batch, tile.first_query, tile.head);
  simd::transpose<head_dim>(tile.queries, q_rows, q.token_stride, query_factor<Scores>(shape),
                            scratch.queries, kQueryTile);
  simd::transpose<head_dim>(tile.queries, dout_rows, dout.token_stride, 1.0f, scratch.d_out, kQueryTile);
  const float* lse_row = lse + (tile.batch * shape.heads + tile.head) * shape.tokens + tile.first_query;
  for (int i = 0; i < kQueryTile; ++i) {
    scratch.lse[i] = i < tile.queries ? lse_row[i] : 0.0f;
    scratch.delta[i] = 0.0f;
  }
  row_dots<head_dim>(tile.queries, dout_rows, dout.token_stride,
                     out.at(tile.batch, tile.first_query, tile.head), out.token_stride, scratch.delta);

  for_key_tiles<Mask>(shape, tile, [&](bool is_first) {
    const float* keys = k.at(tile.batch, tile.first_key, kv_head);
    score_matmul<head_dim>(tile, keys, k.token_stride, scratch.queries, scratch.probabilities);
    score_matmul<head_dim>(tile, v.at(tile.batch, tile.first_key, kv_head), v.token_stride, scratch.d_out,
                           scratch.d_scores);
    score_matmuls<Scores>(shape, tile, 1.0f, scratch.probabilities);
    mask_scores<Mask>(shape, tile, -__builtin_inff(), scratch.probabilities);
    mask_scores<Mask>(shape, tile, 0.0f, scratch.d_scores);
    softmax_gradient_tile<head_dim, Scores, has_dropout>(shape, dropout, tile, scratch);
    add_to_keys<head_dim>(tile, scratch.probabilities, dout_rows, dout.token_stride,
                          sums.dv + tile.first_key * sums.dv_stride, sums.dv_stride);
    add_to_keys<head_dim>(tile, scratch.d_scores, q_rows, q.token_stride,
                          sums.dk + tile.first_key * sums.dk_stride, sums.dk_stride);
    add_to_queries<head_dim>(is_first ? simd::Start::zero : simd::Start::add, tile, scratch.d_scores, keys,
                             k.token_stride, dq_rows, dq.token_stride);
  });
}

// One part of one (batch, kv head): its blocks of queries in order.
template <int head_dim, class Mask, class Scores, bool has_dropout, class Shape>
inline void backward_part(const Shape& shape, std::int64_t batch, std::int64_t kv_head, std::int64_t part,
                          const ConstHeads& q, const ConstHeads& k, const ConstHeads& v,
                          const ConstHeads& out, const float* lse, const ConstHeads& dout,
                          const MutableHeads& dq, const KeyGradients& sums, const AttentionDropout& dropout,
                          BackwardScratch<head_dim>& scratch) {
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
#pragma omp simd
    for (int d = 0; d < head_dim; ++d) {
      sums.dk[token * sums.dk_stride + d] = 0.0f;
      sums.dv[token * sums.dv_stride + d] = 0.0f;
    }
  }
  const std::int64_t blocks = divide_up(shape.tokens, kQueryTile);
  for (std::int64_t item = part; item < backward_items(shape); item += backward_parts(shape)) {
    Tile tile{};
    tile.batch = batch;
    tile.head = kv_head * (shape.heads / shape.kv_heads) + item / blocks;
    tile.first_query = item % blocks * kQueryTile;
    const std::int64_t left = shape.tokens - tile.first_query;
    tile.queries = static_cast<int>(left < kQueryTile ? left : kQueryTile);
    backward_block<head_dim, Mask, Scores, has_dropout>(shape, tile, q, k, v, out, lse, dout, dq, sums,
                                                        dropout, scratch);
  }
}

// to[token] = sum over the parts, in their order, for one (batch, kv head); partial [parts, 2, T, head_dim].
template <int head_dim>
inline void add_parts(const AttentionShape& shape, const float* partial, float* to, std::int64_t to_stride) {
  const std::int64_t size = shape.tokens * head_dim;
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    for (int d = 0; d < head_dim; ++d) to[token * to_stride + d] = partial[token * head_dim + d];
    for (std::int64_t part = 1; part < backward_parts(shape); ++part) {
      const float* from = partial + part * 2 * size + token * head_dim;
#pragma omp simd
      for (int d = 0; d < head_dim; ++d) to[token * to_stride + d] += from[d];
    }
  }
}

}  // namespace detail

template <int head_dim>
constexpr std::size_t attention_backward_workspace(const AttentionShape& shape, int threads) {
  const std::int64_t parts = detail::backward_parts(shape);
  const std::int64_t partial =
      parts == 1 ? 0 : shape.batch * shape.kv_heads * parts * 2 * shape.tokens * head_dim;
  return static_cast<std::size_t>(threads) * sizeof(detail::BackwardScratch<head_dim>) +
         static_cast<std::size_t>(partial) * sizeof(float);
}

// The gradients of q, k and v; all three are overwritten, and none may overlap an input. `out` and `lse` are
// what the forward wrote.
template <int head_dim, class Mask, class Scores, bool has_dropout, class Shape>
void attention_backward(const Shape& shape, ConstHeads q, ConstHeads k, ConstHeads v, ConstHeads out,
                        const float* lse, ConstHeads dout, MutableHeads dq, MutableHeads dk, MutableHeads dv,
                        const AttentionDropout& dropout, AttentionWorkspace workspace) {
  static_assert(head_dim > 0 && head_dim % 8 == 0);
  auto* scratch = static_cast<detail::BackwardScratch<head_dim>*>(workspace.data);
  auto* partials = reinterpret_cast<float*>(scratch + workspace.threads);
  const std::int64_t parts = detail::backward_parts(shape);
  const std::int64_t size = shape.tokens * head_dim;
  const std::int64_t pairs = shape.batch * shape.kv_heads;
  const int threads = omp_get_max_threads() < workspace.threads ? omp_get_max_threads() : workspace.threads;
  // Parts share nothing that they write, so who computes which does not matter.
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t unit = 0; unit < pairs * parts; ++unit) {
    const std::int64_t batch = unit / parts / shape.kv_heads;
    const std::int64_t kv_head = unit / parts % shape.kv_heads;
    float* own = partials + unit * 2 * size;
    const detail::KeyGradients sums =
        parts == 1 ? detail::KeyGradients{dk.at(batch, 0, kv_head), dv.at(batch, 0, kv_head), dk.token_stride,
                                          dv.token_stride}
                   : detail::KeyGradients{own, own + size, head_dim, head_dim};
    if constexpr (Mask::has_documents) {
      detail::backward_part<head_dim, Mask, Scores, has_dropout>(
          detail::of_sequence(shape, batch), batch, kv_head, unit % parts, q, k, v, out, lse, dout, dq, sums,
          dropout, scratch[omp_get_thread_num()]);
    } else {
      detail::backward_part<head_dim, Mask, Scores, has_dropout>(shape, batch, kv_head, unit % parts, q, k, v,
                                                                 out, lse, dout, dq, sums, dropout,
                                                                 scratch[omp_get_thread_num()]);
    }
  }
  if (parts == 1) return;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int64_t batch = pair / shape.kv_heads, kv_head = pair % shape.kv_heads;
    const float* partial = partials + pair * parts * 2 * size;
    detail::add_parts<head_dim>(shape, partial, dk.at(batch, 0, kv_head), dk.token_stride);
    detail::add_parts<head_dim>(shape, partial + size, dv.at(batch, 0, kv_head), dv.token_stride);
  }
}

}  // namespace hydrac::cpu
