// Attention of one new token of each sequence over the keys and values that the sequence left in a cache. A
// sequence's result depends on its own numbers only, whatever else is in the batch, and has the bits that
// attention_forward() has for that token.
#pragma once
#include <omp.h>

#include <cstddef>
#include <cstdint>

#include "cpu/attention_tile.h"

namespace hydrac::cpu {
namespace detail {

// A thread's scratch memory, for the query heads that read one kv head.
struct DecodeScratch {
  DecodeScratch(float* memory, int group, int head_dim)
      : keys(memory),
        queries(keys + head_dim * kKeyTile),
        scores(queries + group * head_dim),
        row_max(scores + group * kKeyTile),
        row_sum(row_max + group),
        rescale(row_sum + group) {}
  static constexpr std::int64_t floats(std::int64_t group, int head_dim) {
    return divide_up(head_dim * kKeyTile + group * (head_dim + kKeyTile + 3), 16) * 16;
  }

  float* keys;                         // [head_dim, kKeyTile], a tile of keys transposed
  float* queries;                      // [group, head_dim], times query_factor()
  float* scores;                       // [group, kKeyTile], then probabilities
  float *row_max, *row_sum, *rescale;  // [group], as ForwardScratch has them
};

// Turns a head's scores of a tile into exp(score - running maximum), and brings maximum and sum up to date.
inline void softmax_of_head(int head, int count, const DecodeScratch& scratch) {
  float* scores = scratch.scores + head * kKeyTile;
  float maximum = scratch.row_max[head];
  for (int i = 0; i < count; ++i) maximum = scores[i] > maximum ? scores[i] : maximum;
  scratch.rescale[head] = exp(scratch.row_max[head] - maximum);
  scratch.row_max[head] = maximum;
#pragma omp simd
  for (int i = 0; i < count; ++i) scores[i] = exp(scores[i] - maximum);
  float sum = scratch.row_sum[head] * scratch.rescale[head];
  for (int i = 0; i < count; ++i) sum += scores[i];
  scratch.row_sum[head] = sum;
}

// The query heads of one kv head of one sequence: the operations of forward_block() for a query, in its
// order, so that the results are the same bits.
template <int head_dim, class Mask, class Scores>
inline void decode_group(const AttentionShape& shape, const ConstHeads& q, const MutableHeads& out,
                         std::int64_t sequence, std::int64_t first_head, int position, const float* keys,
                         const float* values, const DecodeScratch& scratch) {
  constexpr int lanes = simd::lanes_for(head_dim);
  const auto group = static_cast<int>(shape.heads / shape.kv_heads);
  const TokenRange seen = Mask::keys_of(shape, position);
  const int first_tile = seen.first / kKeyTile * kKeyTile;
  // A tile of queries begins with keys that its first query sees. Where this one sees none of their tile, its
  // maximum is 0 from there on: see softmax_tile().
  const bool begins_late = Mask::keys_of(shape, position / kQueryTile * kQueryTile).first < first_tile;
  for (int head = 0; head < group; ++head) {
    scratch.row_max[head] = begins_late ? 0.0f : -__builtin_inff();
    scratch.row_sum[head] = 0.0f;
    const float* query = q.at(sequence, 0, first_head + head);
    for (int d = 0; d < head_dim; ++d)
      scratch.queries[head * head_dim + d] = query[d] * query_factor<Scores>(shape);
  }
  float* out_rows = out.at(sequence, 0, first_head);
  for (int tile = first_tile; tile < seen.end; tile += kKeyTile) {
    const int first = tile < seen.first ? seen.first : tile;
    const int end = tile + kKeyTile < seen.end ? tile + kKeyTile : seen.end, count = end - first;
    simd::transpose<head_dim>(count, keys + first * head_dim, head_dim, 1.0f, scratch.keys, kKeyTile);
    simd::for_row_groups(group, [&](auto rows, int head) {
      simd::matmul_rows<simd::kLanes, rows>(simd::Start::zero,
                                            static_cast<int>(divide_up(count, simd::kLanes)), head_dim,
                                            {scratch.queries + head * head_dim, head_dim, 1}, scratch.keys,
                                            kKeyTile, scratch.scores + head * kKeyTile, kKeyTile);
    });
    for (int head = 0; head < group; ++head) {
      if constexpr (!Scores::is_linear) {
        float* scores = scratch.scores + head * kKeyTile;
#pragma omp simd
        for (int i = 0; i < count; ++i) scores[i] = Scores::factor(shape) * Scores::value(shape, scores[i]);
      }
      softmax_of_head(head, count, scratch);
    }
    simd::for_row_groups(group, [&](auto rows, int head) {
      simd::matmul_rows<lanes, rows>(tile == first_tile ? simd::Start::zero : simd::Start::scale,
                                     head_dim / lanes, count, {scratch.scores + head * kKeyTile, kKeyTile, 1},
                                     values + first * head_dim, head_dim, out_rows + head * out.head_stride,
                                     out.head_stride, scratch.rescale + head);
    });
  }
  for (int head = 0; head < group; ++head) {
    const float inverse = 1.0f / scratch.row_sum[head];
#pragma omp simd
    for (int d = 0; d < head_dim; ++d) out_rows[head * out.head_stride + d] *= inverse;
  }
}

}  // namespace detail

constexpr std::size_t attention_decode_workspace(const AttentionShape& shape, int head_dim, int threads) {
  return static_cast<std::size_t>(threads) *
         static_cast<std::size_t>(detail::DecodeScratch::floats(shape.heads / shape.kv_heads, head_dim)) *
         sizeof(float);
}

// A token of each of shape.batch sequences, at positions[b] < shape.tokens: its k and v [B,1,K,D] go to their
// place in `keys` and `values`, dense [B,K,T,D], and its q [B,1,H,D] attends over those up to it, as Mask and
// Scores say. Heads are a multiple of 8 wide.
template <int head_dim, class Mask, class Scores>
void attention_decode(const AttentionShape& shape, ConstHeads q, ConstHeads k, ConstHeads v,
                      const std::int32_t* positions, float* keys, float* values, MutableHeads out,
                      AttentionWorkspace workspace) {
  static_assert(head_dim > 0 && head_dim % 8 == 0);
  static_assert(Mask::hides_later);
  const int threads = omp_get_max_threads() < workspace.threads ? omp_get_max_threads() : workspace.threads;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::int64_t scratch = detail::DecodeScratch::floats(group, head_dim);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t unit = 0; unit < shape.batch * shape.kv_heads; ++unit) {
    const std::int64_t sequence = unit / shape.kv_heads, kv_head = unit % shape.kv_heads;
    const int position = positions[sequence];
    float* own_keys = keys + unit * shape.tokens * head_dim;
    float* own_values = values + unit * shape.tokens * head_dim;
    const float *key = k.at(sequence, 0, kv_head), *value = v.at(sequence, 0, kv_head);
    for (int d = 0; d < head_dim; ++d) {
      own_keys[position * head_dim + d] = key[d];
      own_values[position * head_dim + d] = value[d];
    }
    detail::decode_group<head_dim, Mask, Scores>(
        shape, q, out, sequence, kv_head * group, position, own_keys, own_values,
        {static_cast<float*>(workspace.data) + omp_get_thread_num() * scratch, static_cast<int>(group),
         head_dim});
  }
}

}  // namespace hydrac::cpu
