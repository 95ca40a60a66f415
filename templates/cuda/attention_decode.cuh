// Attention of one new token of each sequence over its cached keys and values. Query heads that share a kv
// head share each load of its keys. All sums have a fixed order.
#pragma once
#include <cstdint>

#include "attention/mask.h"
#include "attention/scores.h"
#include "cuda/attention/arguments.h"
#include "cuda/decode_geometry.h"
#include "cuda/decode_rotation.cuh"
#include "cuda/reduce.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// A decode kernel's constants: element type, head width, decode_launch()'s result, and the tokens of a page,
// or 0 if a sequence's keys are contiguous.
template <typename Element, int kHeadDim, DecodeLaunch kLaunch, class MaskType, class ScoresType,
          Rotation kRotation = Rotation::none, int kPageTokens = 0>
struct DecodeConfig {
  using T = Element;
  using Mask = MaskType;
  using Scores = ScoresType;
  static constexpr Rotation rotation = kRotation;
  static constexpr int head_dim = kHeadDim, heads = kLaunch.heads, keys = kLaunch.keys, parts = kLaunch.parts;
  static constexpr int page_tokens = kPageTokens;
  static constexpr int columns = 8;                                    // of a lane
  static constexpr int lanes = power_of_two_from(head_dim / columns);  // that share a key
  static constexpr int teams = kDecodeThreads / lanes;                 // of lanes, each with its own keys
  static constexpr int width = lanes * columns;  // of a team's sums: head_dim and padding
  static constexpr int access = 16 / static_cast<int>(sizeof(Element));  // elements of a load
  static constexpr int ahead = access / 2;                               // keys of a team in a round
  static_assert(head_dim % columns == 0 && head_dim <= 256);
  static_assert(Mask::hides_later);
  static_assert(rotation != Rotation::halves || head_dim % (2 * columns) == 0);  // a lane's are of one half
};

namespace detail {

template <typename T>
__device__ float decode_exp(float x) {
  if constexpr (sizeof(T) == 2) return exp_of_16_bits(x);
  return exp(x);
}

// A lane's columns to memory.
template <class Config>
__device__ void store_columns_of(typename Config::T* to,
                                 const Vector<typename Config::T, Config::columns>& columns) {
#pragma unroll
  for (int i = 0; i < Config::columns; i += Config::access) {
    Vector<typename Config::T, Config::access> part;
#pragma unroll
    for (int j = 0; j < Config::access; ++j) part.at[j] = columns.at[i + j];
    store(to + i, part);
  }
}

// A running softmax over the keys of one team: for each query head the largest score, the sum of
// exp(score - largest), and this lane's columns of the weighted values.
template <class Config>
struct DecodeSums {
  float largest[Config::heads], sum[Config::heads], values[Config::heads][Config::columns];

  // Scores and values of one key, or of none.
  __device__ DecodeSums(bool has_key, const float (&scores)[Config::heads],
                        const Vector<typename Config::T, Config::columns>& row) {
#pragma unroll
    for (int h = 0; h < Config::heads; ++h) {
      largest[h] = has_key ? scores[h] : kLowest;
      sum[h] = has_key ? 1.0f : 0.0f;
#pragma unroll
      for (int c = 0; c < Config::columns; ++c) values[h][c] = has_key ? element(row, c) : 0.0f;
    }
  }

  // scores[u][h] of `ahead` keys, -infinity where there is no key, and this lane's columns of their values.
  __device__ void add(const float (&scores)[Config::ahead][Config::heads],
                      const Vector<typename Config::T, Config::columns> (&rows)[Config::ahead]) {
#pragma unroll
    for (int h = 0; h < Config::heads; ++h) {
      float now = largest[h];
#pragma unroll
      for (int u = 0; u < Config::ahead; ++u) now = larger(now, scores[u][h]);
      const float rescale = decode_exp<typename Config::T>(largest[h] - now);
      largest[h] = now;
      sum[h] *= rescale;
#pragma unroll
      for (int c = 0; c < Config::columns; ++c) values[h][c] *= rescale;
#pragma unroll
      for (int u = 0; u < Config::ahead; ++u) {
        const float weight = decode_exp<typename Config::T>(scores[u][h] - now);
        sum[h] += weight;
#pragma unroll
        for (int c = 0; c < Config::columns; ++c)
          values[h][c] = fma(weight, element(rows[u], c), values[h][c]);
      }
    }
  }
};

// One key's scores for the queries of a team's lanes, which have its columns together.
template <class Config>
__device__ void score(const SequenceShape& shape,
                      const Vector<typename Config::T, Config::columns> (&queries)[Config::heads],
                      const Vector<typename Config::T, Config::columns>& key,
                      float (&scores)[Config::heads]) {
#pragma unroll
  for (int h = 0; h < Config::heads; ++h) {
    float dot = 0;
#pragma unroll
    for (int c = 0; c < Config::columns; ++c) dot = fma(element(queries[h], c), element(key, c), dot);
#pragma unroll
    for (int lane = Config::lanes / 2; lane > 0; lane /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, lane);
    scores[h] = Config::Scores::factor(shape) * Config::Scores::value(shape, dot);
  }
}

// A sequence's row of the page table.
template <class Config>
__device__ const std::int32_t* pages_of(const SequenceShape& shape, const std::int32_t* pages, int sequence) {
  if constexpr (Config::page_tokens == 0)
    return nullptr;
  else
    return pages + sequence * ((shape.tokens + Config::page_tokens - 1) / Config::page_tokens);
}

// First row of a kv head of a sequence, counted in rows.
template <class Config>
__device__ std::int64_t first_row(const SequenceShape& shape, int sequence, int kv_head) {
  if constexpr (Config::page_tokens == 0)
    return (static_cast<std::int64_t>(sequence) * shape.kv_heads + kv_head) * shape.tokens;
  else
    return kv_head * Config::page_tokens;  // in each page
}

// Start of a token's row behind that.
template <class Config>
__device__ auto row_of(const SequenceShape& shape, const std::int32_t* own_pages, int token) {
  if constexpr (Config::page_tokens == 0) {
    return token * Config::head_dim;
  } else {
    const std::int64_t page = own_pages[token / Config::page_tokens];
    return page * (shape.kv_heads * Config::page_tokens * Config::head_dim) +
           token % Config::page_tokens * Config::head_dim;
  }
}

// True if the cache keeps the new token.
template <class Config>
__device__ bool is_kept(const std::int32_t* own_pages, int position) {
  if constexpr (Config::page_tokens == 0)
    return true;
  else
    return own_pages[position / Config::page_tokens] >= 0;
}

// Results of the teams of a block.
template <class Config>
struct DecodeFound {
  float values[Config::teams][Config::heads][Config::width];
  float largest[Config::teams][Config::heads], sum[Config::teams][Config::heads];
};

// The keys and values of two rounds; each thread has its own columns. One round is loaded while the other one
// is used.
template <class Config>
struct DecodeRounds {
  using Columns = Vector<typename Config::T, Config::columns>;
  Columns keys[2][Config::ahead][kDecodeThreads], values[2][Config::ahead][kDecodeThreads];
};

template <class Config>
union DecodeShared {
  DecodeRounds<Config> rounds;
  DecodeFound<Config> found;  // behind the last round
};

}  // namespace detail

// The first kernel, in blocks of kDecodeThreads. `shape`.tokens is a sequence's capacity. The new tokens' k,
// rotated like q, and v [S,1,K,D] are stored at positions[s] of `keys` and `values`, dense [S,K,M,D]; q and
// out are [S,1,H,D]. With one part it writes `out`, else `workspace`. With Config::page_tokens keys and
// values are dense pages, [Pages,K,page_tokens,D]: token t of sequence s is in page pages[s, t /
// page_tokens]. A new token whose page is negative is not stored.
template <class Config>
__device__ void attention_decode(const SequenceShape& shape, Heads<const typename Config::T> q,
                                 Heads<const typename Config::T> k, Heads<const typename Config::T> v,
                                 const std::int32_t* positions, const RotationTables& tables,
                                 typename Config::T* keys, typename Config::T* values,
                                 Heads<typename Config::T> out, float* workspace,
                                 const std::int32_t* pages = nullptr) {
  using T = typename Config::T;
  using Columns = Vector<T, Config::columns>;
  constexpr int kHeads = Config::heads, kAhead = Config::ahead, kStep = Config::teams * kAhead;
  __shared__ detail::DecodeShared<Config> shared;
  const int group = shape.heads / shape.kv_heads;
  const int part = static_cast<int>(blockIdx.x) % Config::parts,
            block = static_cast<int>(blockIdx.x) / Config::parts;
  const int sequence = block / (shape.heads / kHeads), first_head = block % (shape.heads / kHeads) * kHeads;
  const int kv_head = first_head / group;
  const int team = static_cast<int>(threadIdx.x) / Config::lanes,
            column = static_cast<int>(threadIdx.x) % Config::lanes * Config::columns;
  const bool has_columns = Config::width == Config::head_dim || column < Config::head_dim;
  const int position = positions[sequence];
  const TokenRange seen = Config::Mask::keys_of(shape, position);
  const int part_end = (part + 1) * Config::keys;
  const bool has_new = part * Config::keys <= position && position < part_end;  // token; it is the last one
  const int begin = max(seen.first, part * Config::keys), end = min(position, part_end);  // in the cache
  const std::int64_t first = detail::first_row<Config>(shape, sequence, kv_head) * Config::head_dim;
  T *own_keys = keys + first, *own_values = values + first;
  const std::int32_t* own_pages = detail::pages_of<Config>(shape, pages, sequence);

  const int thread = static_cast<int>(threadIdx.x);
  const auto key_of = [&](int round, int u) { return round + u * Config::teams + team; };
  const auto fetch = [&](int round, int place) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (key_of(round, u) >= end || !has_columns) continue;
      const auto at = detail::row_of<Config>(shape, own_pages, key_of(round, u)) + column;
      copy_columns<Config::access>(shared.rounds.keys[place][u][thread], own_keys + at);
      copy_columns<Config::access>(shared.rounds.values[place][u][thread], own_values + at);
    }
    commit_copies();
  };
  fetch(begin, 0);

  const detail::DecodeRotation<Config> rotation(tables, position, column);
  Columns query[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) query[h] = rotation.load(q.at(sequence, 0, first_head + h));
  const Columns new_key = rotation.load(k.at(sequence, 0, kv_head));
  const Columns new_value = detail::columns_of<Config>(v.at(sequence, 0, kv_head), column);
  if (has_new && first_head % group == 0 && team == 0 && has_columns &&
      detail::is_kept<Config>(own_pages, position)) {
    const std::int64_t at = detail::row_of<Config>(shape, own_pages, position) + column;
    detail::store_columns_of<Config>(own_keys + at, new_key);
    detail::store_columns_of<Config>(own_values + at, new_value);
  }
  float new_scores[kHeads];
  detail::score<Config>(shape, query, new_key, new_scores);

  detail::DecodeSums<Config> sums(has_new && team == 0, new_scores, new_value);
  int place = 0;
  // Every thread of a warp takes part in each round, for their shuffles.
  for (int round = begin; round < end; round += kStep, place ^= 1) {
    fetch(round + kStep, place ^ 1);
    wait_copies_before<1>();
    float scores[kAhead][kHeads];
    Columns value_rows[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const bool is_key = key_of(round, u) < end, is_there = is_key && has_columns;
      detail::score<Config>(shape, query, is_there ? shared.rounds.keys[place][u][thread] : Columns{},
                            scores[u]);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) scores[u][h] = is_key ? scores[u][h] : minus_infinity();
      value_rows[u] = is_there ? shared.rounds.values[place][u][thread] : Columns{};
    }
    sums.add(scores, value_rows);
  }

  __syncthreads();  // all have used their rounds
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int c = 0; c < Config::columns; ++c) shared.found.values[team][h][column + c] = sums.values[h][c];
    shared.found.largest[team][h] = sums.largest[h];
    shared.found.sum[team][h] = sums.sum[h];
  }
  __syncthreads();  // each team's sums and maxima are there
  for (int i = thread; i < kHeads * Config::head_dim; i += kDecodeThreads) {
    const int h = i / Config::head_dim, d = i % Config::head_dim;
    float largest = kLowest, sum = 0, value = 0;
    for (int t = 0; t < Config::teams; ++t) largest = larger(largest, shared.found.largest[t][h]);
    for (int t = 0; t < Config::teams; ++t) {
      const float factor = detail::decode_exp<T>(shared.found.largest[t][h] - largest);
      sum = fma(factor, shared.found.sum[t][h], sum);
      value = fma(factor, shared.found.values[t][h][d], value);
    }
    if constexpr (Config::parts == 1) {
      out.at(sequence, 0, first_head + h)[d] = narrow<T>(value / sum);
    } else {
      const int heads = static_cast<int>(gridDim.x) / Config::parts * kHeads;  // of all sequences
      const int row = (sequence * shape.heads + first_head + h) * Config::parts + part;
      workspace[static_cast<std::int64_t>(row) * Config::head_dim + d] = value;
      float* statistics = workspace + static_cast<std::int64_t>(heads) * Config::parts * Config::head_dim;
      if (d == 0) {
        statistics[2 * row] = largest;
        statistics[2 * row + 1] = sum;
      }
    }
  }
}

// The second kernel, a block of kDecodeThreads a query head of a sequence: adds up the parts.
template <class Config>
__device__ void attention_decode_parts(const SequenceShape& shape, const float* workspace,
                                       Heads<typename Config::T> out) {
  constexpr int kParts = Config::parts;
  const int head = static_cast<int>(blockIdx.x);  // of all sequences
  const float* rows = workspace + static_cast<std::int64_t>(head) * kParts * Config::head_dim;
  const float* statistics =
      workspace + static_cast<std::int64_t>(gridDim.x) * kParts * Config::head_dim + 2 * head * kParts;
  float largest = kLowest, sum = 0;
  for (int part = 0; part < kParts; ++part) largest = larger(largest, statistics[2 * part]);
  for (int part = 0; part < kParts; ++part)
    sum = fma(detail::decode_exp<typename Config::T>(statistics[2 * part] - largest),
              statistics[2 * part + 1], sum);
  for (int d = static_cast<int>(threadIdx.x); d < Config::head_dim; d += kDecodeThreads) {
    float value = 0;
    for (int part = 0; part < kParts; ++part)
      value = fma(detail::decode_exp<typename Config::T>(statistics[2 * part] - largest),
                  rows[part * Config::head_dim + d], value);
    out.at(head / shape.heads, 0, head % shape.heads)[d] = narrow<typename Config::T>(value / sum);
  }
}

}  // namespace hydrac::cuda
