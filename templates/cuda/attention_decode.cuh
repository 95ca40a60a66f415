// Attention of one new token of each sequence over the keys and values that the sequence left in a cache.
// Query heads that share a kv head share each load of its keys. All sums have a fixed order.
#pragma once
#include <cstdint>

#include "attention/mask.h"
#include "attention/scores.h"
#include "cuda/attention/arguments.h"
#include "cuda/decode_geometry.h"
#include "cuda/reduce.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// A decode kernel's constants: element type, head width, and what decode_launch() says.
template <typename Element, int kHeadDim, DecodeLaunch kLaunch, class MaskType, class ScoresType>
struct DecodeConfig {
  using T = Element;
  using Mask = MaskType;
  using Scores = ScoresType;
  static constexpr int head_dim = kHeadDim, heads = kLaunch.heads, keys = kLaunch.keys, parts = kLaunch.parts;
  static constexpr int columns = 8;                                    // of a lane
  static constexpr int lanes = power_of_two_from(head_dim / columns);  // that share a key
  static constexpr int teams = kDecodeThreads / lanes;                 // of lanes, each with its own keys
  static constexpr int width = lanes * columns;  // of a team's sums: head_dim and padding
  static constexpr int access = 16 / static_cast<int>(sizeof(Element));  // elements of a load
  static constexpr int ahead = 4;                                        // keys of a team whose loads overlap
  static_assert(head_dim % columns == 0 && head_dim <= 256);
  static_assert(Mask::hides_later);
};

namespace detail {

template <typename T>
__device__ float decode_exp(float x) {
  if constexpr (sizeof(T) == 2) return exp_of_16_bits(x);
  return exp(x);
}

// A running softmax over the keys of one team: for each query head the largest score, the sum of
// exp(score - largest), and this lane's columns of the weighted values.
template <class Config>
struct DecodeSums {
  float largest[Config::heads], sum[Config::heads], values[Config::heads][Config::columns];

  __device__ DecodeSums() {
#pragma unroll
    for (int h = 0; h < Config::heads; ++h) {
      largest[h] = kLowest;
      sum[h] = 0;
#pragma unroll
      for (int c = 0; c < Config::columns; ++c) values[h][c] = 0;
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

// What the teams of a block found, in shared memory.
template <class Config>
struct DecodeShared {
  float values[Config::teams][Config::heads][Config::width];
  float largest[Config::teams][Config::heads], sum[Config::teams][Config::heads];
};

}  // namespace detail

// The first kernel, in blocks of kDecodeThreads. `shape`.tokens is what a sequence has room for. The new
// tokens' k and v [S,1,K,D] go to positions[s] of `keys` and `values`, dense [S,K,M,D]; q and out [S,1,H,D].
// With one part it writes `out`, else `workspace`.
template <class Config>
__device__ void attention_decode(const SequenceShape& shape, Heads<const typename Config::T> q,
                                 Heads<const typename Config::T> k, Heads<const typename Config::T> v,
                                 const std::int32_t* positions, typename Config::T* keys,
                                 typename Config::T* values, Heads<typename Config::T> out,
                                 float* workspace) {
  using T = typename Config::T;
  using Columns = Vector<T, Config::columns>;
  constexpr int kHeads = Config::heads, kAhead = Config::ahead, kStep = Config::teams * kAhead;
  __shared__ detail::DecodeShared<Config> shared_sums;
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
  const int begin = max(seen.first, part * Config::keys), end = min(seen.end, part_end);
  const std::int64_t first_row =
      (static_cast<std::int64_t>(sequence) * shape.kv_heads + kv_head) * shape.tokens;
  const T *new_key = k.at(sequence, 0, kv_head), *new_value = v.at(sequence, 0, kv_head);
  T *own_keys = keys + first_row * Config::head_dim, *own_values = values + first_row * Config::head_dim;

  Columns query[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    query[h] = Columns{};
    if (has_columns) load_columns<Config::access>(query[h], q.at(sequence, 0, first_head + h) + column);
  }

  detail::DecodeSums<Config> sums;
  // Every thread of a warp takes part in each round, for their shuffles.
  for (int round = begin; round < end; round += kStep) {
    Columns key_rows[kAhead], value_rows[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int key = round + u * Config::teams + team;
      key_rows[u] = value_rows[u] = Columns{};
      if (key >= end || !has_columns) continue;
      // The new token's are not in the cache yet.
      const int at = key * Config::head_dim + column;  // of the sequence's and head's
      load_columns<Config::access>(key_rows[u], key == position ? new_key + column : own_keys + at);
      load_columns<Config::access>(value_rows[u], key == position ? new_value + column : own_values + at);
    }
    float scores[kAhead][kHeads];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const bool is_key = round + u * Config::teams + team < end;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float dot = 0;
#pragma unroll
        for (int c = 0; c < Config::columns; ++c)
          dot = fma(element(query[h], c), element(key_rows[u], c), dot);
#pragma unroll
        for (int lane = Config::lanes / 2; lane > 0; lane /= 2)
          dot += __shfl_xor_sync(0xFFFFFFFFu, dot, lane);
        const float score = Config::Scores::factor(shape) * Config::Scores::value(shape, dot);
        scores[u][h] = is_key ? score : minus_infinity();
      }
    }
    sums.add(scores, value_rows);
  }

  const bool keeps = first_head % group == 0 && part * Config::keys <= position && position < part_end;
  if (keeps && team == 0 && has_columns) {
    const std::int64_t at = static_cast<std::int64_t>(position) * Config::head_dim + column;
#pragma unroll
    for (int i = 0; i < Config::columns; i += Config::access) {
      store(own_keys + at + i, load<Config::access>(new_key + column + i));
      store(own_values + at + i, load<Config::access>(new_value + column + i));
    }
  }

#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int c = 0; c < Config::columns; ++c) shared_sums.values[team][h][column + c] = sums.values[h][c];
    shared_sums.largest[team][h] = sums.largest[h];
    shared_sums.sum[team][h] = sums.sum[h];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kHeads * Config::head_dim; i += kDecodeThreads) {
    const int h = i / Config::head_dim, d = i % Config::head_dim;
    float largest = kLowest, sum = 0, value = 0;
    for (int t = 0; t < Config::teams; ++t) largest = larger(largest, shared_sums.largest[t][h]);
    for (int t = 0; t < Config::teams; ++t) {
      const float factor = detail::decode_exp<T>(shared_sums.largest[t][h] - largest);
      sum = fma(factor, shared_sums.sum[t][h], sum);
      value = fma(factor, shared_sums.values[t][h][d], value);
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
