// The forward of attention: one block of queries at a time against tiles of keys, with a running maximum and
// sum. See attention.h for what the functions take.
#pragma once
#include "cpu/attention_tile.h"

namespace hydrac::cpu {
namespace detail {

template <int head_dim>
struct alignas(64) ForwardScratch {
  float queries[head_dim * kQueryTile];  // scale * q, transposed: [head_dim, query]
  float scores[kKeyTile * kQueryTile];   // [key, query], then probabilities
  float row_max[kQueryTile];
  float row_sum[kQueryTile];
  float rescale[kQueryTile];  // what a new maximum makes of the sums so far
};

// Turns a tile of scores into exp(score - running maximum), and brings maximum and sum up to date. A query
// that sees no key of the tiles visited so far keeps -infinity as its maximum.
template <int head_dim, bool rows_begin_late>
inline void softmax_tile(const Tile& tile, ForwardScratch<head_dim>& scratch) {
  for (int v = 0; v < tile.vectors(); ++v) {
    const int first = v * simd::kLanes;
    const int keys = tile.keys_of_vector(v);
    simd::Vector<simd::kLanes> maximum = simd::load<simd::kLanes>(scratch.row_max + first);
    for (int key = 0; key < keys; ++key) {
      const simd::Vector<simd::kLanes> score =
          simd::load<simd::kLanes>(scratch.scores + key * kQueryTile + first);
      maximum = score > maximum ? score : maximum;
    }
    alignas(64) float new_max[simd::kLanes], shift[simd::kLanes], sum[simd::kLanes];
    simd::store<simd::kLanes>(new_max, maximum);
    if constexpr (rows_begin_late) {  // -infinity minus itself is no number; exp(-infinity - 0) is 0
      constexpr float infinity = __builtin_inff();
      maximum = maximum == -infinity ? simd::Vector<simd::kLanes>{} : maximum;
    }
    simd::store<simd::kLanes>(shift, maximum);
#pragma omp simd simdlen(simd::kLanes)
    for (int lane = 0; lane < simd::kLanes; ++lane) {
      scratch.rescale[first + lane] = exp(scratch.row_max[first + lane] - shift[lane]);
      scratch.row_max[first + lane] = new_max[lane];
      sum[lane] = scratch.row_sum[first + lane] * scratch.rescale[first + lane];
    }
    for (int key = 0; key < keys; ++key) {
      float* scores = scratch.scores + key * kQueryTile + first;
#pragma omp simd simdlen(simd::kLanes)
      for (int lane = 0; lane < simd::kLanes; ++lane) {
        const float probability = exp(scores[lane] - shift[lane]);
        sum[lane] += probability;
        scores[lane] = probability;
      }
    }
    simd::store<simd::kLanes>(scratch.row_sum + first, simd::load<simd::kLanes>(sum));
  }
}

inline void drop_probabilities(const AttentionShape& shape, const AttentionDropout& dropout, const Tile& tile,
                               float* probabilities) {
  for (int v = 0; v < tile.vectors(); ++v) {
    for (int key = 0; key < tile.keys_of_vector(v); ++key) {
      alignas(64) float factors[simd::kLanes];
      dropout_factors(shape, dropout, tile, v, key, factors);
      float* row = probabilities + key * kQueryTile + v * simd::kLanes;
#pragma omp simd simdlen(simd::kLanes)
      for (int lane = 0; lane < simd::kLanes; ++lane) row[lane] *= factors[lane];
    }
  }
}

// out[query] = start(out[query]) + probabilities[:, query] . values
template <int head_dim>
inline void add_values(simd::Start start, const Tile& tile, const ForwardScratch<head_dim>& scratch,
                       const ConstHeads& v, const float* values, const MutableHeads& out, float* out_rows) {
  constexpr int lanes = simd::lanes_for(head_dim);
  simd::for_row_groups(tile.queries, [&](auto count, int query) {
    simd::matmul_rows<lanes, count>(
        start, head_dim / lanes, tile.keys_of(query + count), {scratch.scores + query, 1, kQueryTile}, values,
        v.token_stride, out_rows + query * out.token_stride, out.token_stride, scratch.rescale + query);
  });
}

template <int head_dim, class Mask, class Scores, bool has_dropout, class Shape>
inline void forward_block(const Shape& shape, Tile tile, const ConstHeads& q, const ConstHeads& k,
                          const ConstHeads& v, const MutableHeads& out, float* lse,
                          const AttentionDropout& dropout, ForwardScratch<head_dim>& scratch) {
  constexpr float infinity = __builtin_inff();
  const std::int64_t kv_head = tile.head / (shape.heads / shape.kv_heads);
  float* out_rows = out.at(tile.batch, tile.first_query, tile.head);
  simd::transpose<head_dim>(tile.queries, q.at(tile.batch, tile.first_query, tile.head), q.token_stride,
                            query_factor<Scores>(shape), scratch.queries, kQueryTile);
  for (int i = 0; i < kQueryTile; ++i) scratch.row_max[i] = -infinity, scratch.row_sum[i] = 0.0f;

  for_key_tiles<Mask>(shape, tile, [&](bool is_first) {
    score_matmul<head_dim>(tile, k.at(tile.batch, tile.first_key, kv_head), k.token_stride, scratch.queries,
                           scratch.scores);
    score_matmuls<Scores>(shape, tile, Scores::factor(shape), scratch.scores);
    mask_scores<Mask>(shape, tile, -infinity, scratch.scores);
    softmax_tile<head_dim, Mask::hides_earlier>(tile, scratch);
    if constexpr (has_dropout) drop_probabilities(shape, dropout, tile, scratch.scores);
    const float* values = v.at(tile.batch, tile.first_key, kv_head);
    add_values(is_first ? simd::Start::zero : simd::Start::scale, tile, scratch, v, values, out, out_rows);
  });

  float* lse_row = lse + (tile.batch * shape.heads + tile.head) * shape.tokens + tile.first_query;
  for (int i = 0; i < tile.queries; ++i) {
    const float inverse = 1.0f / scratch.row_sum[i];
#pragma omp simd
    for (int d = 0; d < head_dim; ++d) out_rows[i * out.token_stride + d] *= inverse;
    lse_row[i] = scratch.row_max[i] + log(scratch.row_sum[i]);
  }
}

}  // namespace detail

template <int head_dim>
constexpr std::size_t attention_forward_workspace(const AttentionShape&, int threads) {
  return static_cast<std::size_t>(threads) * sizeof(detail::ForwardScratch<head_dim>);
}

// out = softmax(scores of q k^T) v. lse [B,H,T], dense, receives the logarithm of the sum of exp of each
// row's scores: the backward needs it. Heads are a multiple of 8 wide. out must overlap no input.
template <int head_dim, class Mask, class Scores, bool has_dropout, class Shape>
void attention_forward(const Shape& shape, ConstHeads q, ConstHeads k, ConstHeads v, MutableHeads out,
                       float* lse, const AttentionDropout& dropout, AttentionWorkspace workspace) {
  static_assert(head_dim > 0 && head_dim % 8 == 0);
  auto* scratch = static_cast<detail::ForwardScratch<head_dim>*>(workspace.data);
  const std::int64_t blocks = detail::divide_up(shape.tokens, detail::kQueryTile);
  const int threads = omp_get_max_threads() < workspace.threads ? omp_get_max_threads() : workspace.threads;
  // Blocks share nothing that they write, so who computes which does not matter; causal ones differ in cost.
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t unit = 0; unit < shape.batch * shape.heads * blocks; ++unit) {
    detail::Tile tile{};
    tile.batch = unit / (shape.heads * blocks);
    tile.head = unit / blocks % shape.heads;
    tile.first_query = unit % blocks * detail::kQueryTile;
    const std::int64_t left = shape.tokens - tile.first_query;
    tile.queries = static_cast<int>(left < detail::kQueryTile ? left : detail::kQueryTile);
    if constexpr (Mask::has_documents) {
      detail::forward_block<head_dim, Mask, Scores, has_dropout>(detail::of_sequence(shape, tile.batch), tile,
                                                                 q, k, v, out, lse, dropout,
                                                                 scratch[omp_get_thread_num()]);
    } else {
      detail::forward_block<head_dim, Mask, Scores, has_dropout>(shape, tile, q, k, v, out, lse, dropout,
                                                                 scratch[omp_get_thread_num()]);
    }
  }
}

}  // namespace hydrac::cpu
