// Keys and values of prompts into the cache that attention_decode.cuh reads.
#pragma once
#include <cstdint>

#include "cuda/attention/arguments.h"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

inline constexpr int kCacheAppendThreads = 256, kCacheAppendColumns = 8;

// Stores k and v [A,T,K,D] as tokens 0 to T - 1 of sequences rows[a] of `keys` and `values`, dense [S,K,M,D];
// a negative row is not stored. A thread moves eight columns of both. With `pages_of_sequence` the cache is
// pages of M tokens, [Pages,K,M,D]: token t of a sequence is in page pages[row, t / M], and tokens of a
// negative page are not stored.
template <typename T, int prompts, int tokens, int kv_heads, int context, int head_dim,
          int pages_of_sequence = 0>
__device__ void cache_append(Heads<const T> k, Heads<const T> v, const std::int32_t* rows, T* keys, T* values,
                             const std::int32_t* pages = nullptr) {
  constexpr int kColumns = kCacheAppendColumns, kAccess = 16 / static_cast<int>(sizeof(T));
  constexpr int kVectors = head_dim / kColumns;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kCacheAppendThreads + threadIdx.x;
  if (i >= std::int64_t{prompts} * tokens * kv_heads * kVectors) return;
  const int column = static_cast<int>(i % kVectors) * kColumns,
            head = static_cast<int>(i / kVectors % kv_heads);
  const int token = static_cast<int>(i / kVectors / kv_heads % tokens),
            prompt = static_cast<int>(i / kVectors / kv_heads / tokens);
  const int row = rows[prompt];
  if (row < 0) return;
  int unit = row, place = token;
  if constexpr (pages_of_sequence > 0) {
    unit = pages[row * pages_of_sequence + token / context];
    place = token % context;
    if (unit < 0) return;
  }
  const std::int64_t at =
      ((static_cast<std::int64_t>(unit) * kv_heads + head) * context + place) * head_dim + column;
  const T *key = k.at(prompt, token, head) + column, *value = v.at(prompt, token, head) + column;
#pragma unroll
  for (int c = 0; c < kColumns; c += kAccess) {
    store(keys + at + c, load<kAccess>(key + c));
    store(values + at + c, load<kAccess>(value + c));
  }
}

}  // namespace hydrac::cuda
