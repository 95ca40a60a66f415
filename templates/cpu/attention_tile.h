// Shared by the forward and the backward of attention. A tile of scores lies transposed, [keys, queries]:
// then only the queries are ever rearranged, keys and values are read where they lie, and the softmax runs
// down columns.
#pragma once
#include <omp.h>

#include <cstddef>
#include <cstdint>

#include "cpu/attention_types.h"
#include "cpu/random_row.h"
#include "cpu/tile.h"
// Behind the shape, which specialized policies name.
#include "attention/mask.h"
#include "attention/scores.h"

namespace hydrac::cpu {

using PackedShape = Packed<AttentionShape>;

}  // namespace hydrac::cpu

namespace hydrac::cpu::detail {

constexpr int kQueryTile = 64;  // a multiple of kLanes; also the distance between two rows of a tile
constexpr int kKeyTile = 64;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Place of a tile: keys [first_key, first_key + keys) against queries [first_query, first_query + queries).
struct Tile {
  std::int64_t batch, head, first_query, first_key;
  int queries, keys;
  bool diagonal;  // some of its keys are hidden because they come after some of its queries

  int vectors() const { return static_cast<int>(divide_up(queries, simd::kLanes)); }
  // The first query, counted from first_query, that may see this key (counted from first_key).
  int first_query_of(int key) const { return diagonal ? static_cast<int>(first_key - first_query) + key : 0; }
  // How many keys the queries up to `query` (excluded) see between them.
  int keys_of(int query) const {
    const auto seen = static_cast<int>(first_query - first_key) + query;
    return diagonal && seen < keys ? (seen > 0 ? seen : 0) : keys;
  }
  // How many keys of vector v of queries the matmuls read: a group of rows reaches past its own diagonal.
  int keys_of_vector(int v) const { return keys_of((v + 1) * simd::kLanes + simd::kRowsAtOnce - 1); }
};

// The tile of scores: scores[key, query] = rows[key] . columns[:, query], where only what keys_of() covers is
// computed. `rows` are keys or values as they lie; `columns` [head_dim, kQueryTile].
template <int head_dim>
inline void score_matmul(const Tile& tile, const float* rows, std::int64_t row_stride, const float* columns,
                         float* scores) {
  simd::for_row_groups(tile.keys, [&](auto count, int key) {
    const int first_vector = tile.first_query_of(key) > 0 ? tile.first_query_of(key) / simd::kLanes : 0;
    const int offset = first_vector * simd::kLanes;
    simd::matmul_rows<simd::kLanes, count>(simd::Start::zero, tile.vectors() - first_vector, head_dim,
                                           {rows + key * row_stride, row_stride, 1}, columns + offset,
                                           kQueryTile, scores + key * kQueryTile + offset, kQueryTile);
  });
}

// The shape with the documents of one sequence; `shape` has those of sequence 0, and the others' behind them.
inline PackedShape of_sequence(const PackedShape& shape, std::int64_t batch) {
  return {shape, shape.documents + 2 * shape.tokens * batch};
}

// Calls visit() for the tiles of keys that the tile's queries see, in order; is_first says which is the
// first.
template <class Mask, class Shape, class Visit>
inline void for_key_tiles(const Shape& shape, Tile& tile, Visit visit) {
  const auto first_query = static_cast<int>(tile.first_query);
  const TokenRange seen = keys_of_any<Mask>(shape, first_query, first_query + tile.queries - 1);
  const std::int64_t begin = seen.first / kKeyTile * kKeyTile;
  for (tile.first_key = begin; tile.first_key < seen.end; tile.first_key += kKeyTile) {
    tile.keys = static_cast<int>(seen.end - tile.first_key < kKeyTile ? seen.end - tile.first_key : kKeyTile);
    tile.diagonal = Mask::hides_later && tile.first_key + tile.keys > tile.first_query;
    visit(tile.first_key == begin);
  }
}

// Writes `value` where the query may not see the key, as far as anything reads there.
template <class Mask, class Shape>
inline void mask_scores(const Shape& shape, const Tile& tile, float value, float* scores) {
  if constexpr (Mask::hides_earlier) {
    for (int key = 0; key < tile.keys; ++key) {
      const int end = Mask::queries_of(shape, static_cast<int>(tile.first_key) + key).end;
      const std::int64_t seen = end - tile.first_query;
      for (int query = seen > 0 ? static_cast<int>(seen) : 0; query < tile.queries; ++query) {
        scores[key * kQueryTile + query] = value;
      }
    }
  }
  if constexpr (Mask::has_documents && !Mask::hides_later) {
    for (int key = 0; key < tile.keys; ++key) {
      const int first = Mask::queries_of(shape, static_cast<int>(tile.first_key) + key).first;
      for (int query = 0; query < tile.queries && tile.first_query + query < first; ++query) {
        scores[key * kQueryTile + query] = value;
      }
    }
  }
  if (!tile.diagonal) return;
  for (int key = 0; key < tile.keys; ++key) {
    const int end = tile.first_query_of(key) < tile.queries ? tile.first_query_of(key) : tile.queries;
    const int reached = end - simd::kRowsAtOnce + 1;
    for (int query = reached > 0 ? reached / simd::kLanes * simd::kLanes : 0; query < end; ++query) {
      scores[key * kQueryTile + query] = value;
    }
  }
}

// Factor of the queries before the matmuls, so that linear scores need no pass of their own.
template <class Scores>
inline float query_factor(const AttentionShape& shape) {
  return Scores::is_linear ? shape.scale : 1.0f;
}

// From matmuls to `factor` times what Scores::factor() multiplies; linear scores are there already.
template <class Scores>
inline void score_matmuls(const AttentionShape& shape, const Tile& tile, float factor, float* scores) {
  if constexpr (!Scores::is_linear) {
    for (int v = 0; v < tile.vectors(); ++v) {
      for (int key = 0; key < tile.keys_of_vector(v); ++key) {
        float* row = scores + key * kQueryTile + v * simd::kLanes;
#pragma omp simd simdlen(simd::kLanes)
        for (int lane = 0; lane < simd::kLanes; ++lane) row[lane] = factor * Scores::value(shape, row[lane]);
      }
    }
  }
}

// Dropout's factor of the probabilities of one key (counted from first_key), for the queries of vector v: 0
// or keep_scale.
inline void dropout_factors(const AttentionShape& shape, const AttentionDropout& dropout, const Tile& tile,
                            int v, int key, float (&factors)[simd::kLanes]) {
  const std::int64_t head = tile.batch * shape.heads + tile.head;
  const std::int64_t query = tile.first_query + v * simd::kLanes;
  const std::uint64_t first = score_index(head, shape.tokens, query, tile.first_key + key);
  const auto step = static_cast<std::uint32_t>(score_index(0, shape.tokens, 1, 0) / 4);
  // Queries 8 apart share a run of the generator, of which each has one word.
  constexpr int runs = simd::kLanes < 8 ? simd::kLanes : 8;
  std::uint32_t words[2][runs];
  simd::philox_row(static_cast<std::uint32_t>(first >> 2), step, static_cast<std::uint32_t>(first >> 34),
                   dropout.key, words);
  const std::uint64_t first_word = first / 2 % 2, shift = first % 2 * 16;
#pragma omp simd simdlen(simd::kLanes)
  for (int lane = 0; lane < simd::kLanes; ++lane) {
    const std::uint32_t bits =
        words[simd::kLanes > 8 ? lane / 8 : first_word][lane % runs] >> shift & 0xFFFFu;
    factors[lane] = bits >= dropout.threshold ? dropout.keep_scale : 0.0f;
  }
}

}  // namespace hydrac::cpu::detail
