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

// A sequence's row of the page table.
template <int page_tokens>
inline const std::int32_t* pages_of(const AttentionShape& shape, const std::int32_t* pages,
                                    std::int64_t sequence) {
  if constexpr (page_tokens == 0)
    return nullptr;
  else
    return pages + sequence * divide_up(shape.tokens, page_tokens);
}

// First row of a kv head of a sequence, counted in rows.
template <int page_tokens>
inline std::int64_t first_row(const AttentionShape& shape, std::int64_t sequence, std::int64_t kv_head) {
  if constexpr (page_tokens == 0)
    return (sequence * shape.kv_heads + kv_head) * shape.tokens;
  else
    return kv_head * page_tokens;  // in each page
}

// Start of a token's row behind that.
template <int head_dim, int page_tokens>
inline std::int64_t row_of(const AttentionShape& shape, const std::int32_t* own_pages, std::int64_t token) {
  if constexpr (page_tokens == 0)
    return token * head_dim;
  else
    return (own_pages[token / page_tokens] * shape.kv_heads * page_tokens + token % page_tokens) * head_dim;
}

// Attention of a token that sees itself alone.
template <int head_dim>
inline void copy_value(const AttentionShape& shape, const float* value, const MutableHeads& out,
                       std::int64_t sequence, std::int64_t kv_head) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int d = 0; d < head_dim; ++d) out.at(sequence, 0, head)[d] = value[d];
  }
}

// The query heads of one kv head of one sequence: the operations of forward_block() for a query, in its
// order, so that the results are the same bits.
template <int head_dim, class Mask, class Scores, int page_tokens>
inline void decode_group(const AttentionShape& shape, const ConstHeads& q, const MutableHeads& out,
                         std::int64_t sequence, std::int64_t first_head, int position,
                         const std::int32_t* own_pages, const float* keys, const float* values,
                         const DecodeScratch& scratch) {
  constexpr int lanes = simd::lanes_for(head_dim);
  const auto group = static_cast<int>(shape.heads / shape.kv_heads);
  const TokenRange seen = Mask::keys_of(shape, position);
  const int first_tile = seen.first / kKeyTile * kKeyTile;
  for (int head = 0; head < group; ++head) {
    scratch.row_max[head] = -__builtin_inff();
    scratch.row_sum[head] = 0.0f;
    const float* query = q.at(sequence, 0, first_head + head);
    for (int d = 0; d < head_dim; ++d)
      scratch.queries[head * head_dim + d] = query[d] * query_factor<Scores>(shape);
  }
  float* out_rows = out.at(sequence, 0, first_head);
  for (int tile = first_tile; tile < seen.end; tile += kKeyTile) {
    const int first = tile < seen.first ? seen.first : tile;
    const int end = tile + kKeyTile < seen.end ? tile + kKeyTile : seen.end, count = end - first;
    const std::int64_t row = row_of<head_dim, page_tokens>(shape, own_pages, first);
    simd::transpose<head_dim>(count, keys + row, head_dim, 1.0f, scratch.keys, kKeyTile);
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
                                     values + row, head_dim, out_rows + head * out.head_stride,
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

// Computes one token of each of shape.batch sequences, at positions[b] < shape.tokens. Its k and v [B,1,K,D]
// are stored in `keys` and `values`, dense [B,K,T,D], and its q [B,1,H,D] attends to all keys up to its own,
// as Mask and Scores say. Heads are a multiple of 8 wide. With page_tokens, keys and values are dense pages
// of so many tokens, [Pages,K,page_tokens,D]: token t of sequence b is in page pages[b, t / page_tokens].
// A new token whose page is negative is not stored, and sees itself alone.
template <int head_dim, class Mask, class Scores, int page_tokens = 0>
void attention_decode(const AttentionShape& shape, ConstHeads q, ConstHeads k, ConstHeads v,
                      const std::int32_t* positions, float* keys, float* values, MutableHeads out,
                      AttentionWorkspace workspace, const std::int32_t* pages = nullptr) {
  static_assert(head_dim > 0 && head_dim % 8 == 0);
  static_assert(Mask::hides_later);
  static_assert(page_tokens % detail::kKeyTile == 0);  // a tile is of one page
  const int threads = omp_get_max_threads() < workspace.threads ? omp_get_max_threads() : workspace.threads;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::int64_t scratch = detail::DecodeScratch::floats(group, head_dim);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t unit = 0; unit < shape.batch * shape.kv_heads; ++unit) {
    const std::int64_t sequence = unit / shape.kv_heads, kv_head = unit % shape.kv_heads;
    const int position = positions[sequence];
    const std::int64_t first = detail::first_row<page_tokens>(shape, sequence, kv_head) * head_dim;
    float *own_keys = keys + first, *own_values = values + first;
    const float *key = k.at(sequence, 0, kv_head), *value = v.at(sequence, 0, kv_head);
    const std::int32_t* own_pages = detail::pages_of<page_tokens>(shape, pages, sequence);
    if constexpr (page_tokens > 0) {
      if (own_pages[position / page_tokens] < 0) {
        detail::copy_value<head_dim>(shape, value, out, sequence, kv_head);
        continue;
      }
    }
    const std::int64_t row = detail::row_of<head_dim, page_tokens>(shape, own_pages, position);
    for (int d = 0; d < head_dim; ++d) {
      own_keys[row + d] = key[d];
      own_values[row + d] = value[d];
    }
    detail::decode_group<head_dim, Mask, Scores, page_tokens>(
        shape, q, out, sequence, kv_head * group, position, own_pages, own_keys, own_values,
        {static_cast<float*>(workspace.data) + omp_get_thread_num() * scratch, static_cast<int>(group),
         head_dim});
  }
}

}  // namespace hydrac::cpu
