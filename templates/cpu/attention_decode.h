// Attention of one new token of each sequence over the keys and values that the sequence left in a cache. A
// sequence's result depends on its own numbers only, whatever else is in the batch.
#pragma once
#include <omp.h>

#include <cstddef>
#include <cstdint>

#include "cpu/attention_types.h"
#include "cpu/tile.h"
// Behind the shape, which specialized policies name.
#include "attention/mask.h"
#include "attention/scores.h"

namespace hydrac::cpu {
namespace detail {

// Floats between the scores of two query heads.
constexpr std::int64_t score_stride(const AttentionShape& shape) {
  return (shape.tokens + 15) / 16 * 16;
}

template <int head_dim>
inline float dot(const float* a, const float* b) {
  constexpr int lanes = simd::lanes_for(head_dim);
  simd::Vector<lanes> sums{};
  for (int d = 0; d < head_dim; d += lanes) sums += simd::load<lanes>(a + d) * simd::load<lanes>(b + d);
  float sum = 0;
  for (int lane = 0; lane < lanes; ++lane) sum += sums[lane];
  return sum;
}

// Scores become exp(score - their maximum); returns the sum.
inline float exponentials(float* scores, int count) {
  float maximum = scores[0], sum = 0;
  for (int i = 1; i < count; ++i) maximum = scores[i] > maximum ? scores[i] : maximum;
#pragma omp simd
  for (int i = 0; i < count; ++i) scores[i] = exp(scores[i] - maximum);
  for (int i = 0; i < count; ++i) sum += scores[i];
  return sum;
}

// out = the weighted sum of `count` rows of `values`, times `factor`.
template <int head_dim>
inline void mix_values(const float* weights, int count, const float* values, float factor, float* out) {
  constexpr int lanes = simd::lanes_for(head_dim), vectors = head_dim / lanes;
  simd::Vector<lanes> sums[vectors] = {};
  for (int i = 0; i < count; ++i) {
    for (int v = 0; v < vectors; ++v)
      sums[v] = simd::multiply_add<lanes>(weights[i], simd::load<lanes>(values + i * head_dim + v * lanes),
                                          sums[v]);
  }
  for (int v = 0; v < vectors; ++v) simd::store<lanes>(out + v * lanes, sums[v] * factor);
}

// The query heads of one kv head of one sequence.
template <int head_dim, class Mask, class Scores>
inline void decode_group(const AttentionShape& shape, const ConstHeads& q, const MutableHeads& out,
                         std::int64_t sequence, std::int64_t first_head, int position, const float* keys,
                         const float* values, float* scores) {
  const auto group = static_cast<int>(shape.heads / shape.kv_heads);
  const TokenRange seen = Mask::keys_of(shape, position);
  const int count = seen.end - seen.first;
  for (int key = 0; key < count; ++key) {
    const float* row = keys + (seen.first + key) * head_dim;
    for (int head = 0; head < group; ++head) {
      const float product = dot<head_dim>(q.at(sequence, 0, first_head + head), row);
      scores[head * score_stride(shape) + key] = Scores::factor(shape) * Scores::value(shape, product);
    }
  }
  for (int head = 0; head < group; ++head) {
    float* weights = scores + head * score_stride(shape);
    const float sum = exponentials(weights, count);
    mix_values<head_dim>(weights, count, values + seen.first * head_dim, 1.0f / sum,
                         out.at(sequence, 0, first_head + head));
  }
}

}  // namespace detail

template <int head_dim>
constexpr std::size_t attention_decode_workspace(const AttentionShape& shape, int threads) {
  return static_cast<std::size_t>(threads) * static_cast<std::size_t>(shape.heads / shape.kv_heads) *
         static_cast<std::size_t>(detail::score_stride(shape)) * sizeof(float);
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
  const std::int64_t scratch = shape.heads / shape.kv_heads * detail::score_stride(shape);
  const std::int64_t group = shape.heads / shape.kv_heads;
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
        static_cast<float*>(workspace.data) + omp_get_thread_num() * scratch);
  }
}

}  // namespace hydrac::cpu
