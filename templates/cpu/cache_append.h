// Keys and values of prompts into the cache that attention_decode.h reads.
#pragma once
#include <cstdint>

#include "cpu/attention_types.h"

namespace hydrac::cpu {

// Prompts of `tokens` tokens each; the cache's sequences, or its pages, have room for `context`.
struct CacheShape {
  std::int64_t prompts, tokens, kv_heads, context;
};

// k and v [A,T,K,D] become tokens 0 to T - 1 of sequences rows[a] of `keys` and `values`, dense [S,K,M,D]; of
// a negative row nothing is kept.
template <int head_dim>
void cache_append(const CacheShape& shape, ConstHeads k, ConstHeads v, const std::int32_t* rows, float* keys,
                  float* values) {
#pragma omp parallel for schedule(static)
  for (std::int64_t unit = 0; unit < shape.prompts * shape.kv_heads; ++unit) {
    const std::int64_t prompt = unit / shape.kv_heads, head = unit % shape.kv_heads;
    if (rows[prompt] < 0) continue;
    const std::int64_t first = (rows[prompt] * shape.kv_heads + head) * shape.context * head_dim;
    for (std::int64_t token = 0; token < shape.tokens; ++token) {
      const float *key = k.at(prompt, token, head), *value = v.at(prompt, token, head);
#pragma omp simd
      for (int d = 0; d < head_dim; ++d) {
        keys[first + token * head_dim + d] = key[d];
        values[first + token * head_dim + d] = value[d];
      }
    }
  }
}

// Into pages, [Pages,K,M,D]: tokens from i * M on of sequence s are those of page pages[s, i], of
// `pages_of_sequence` a sequence; of a negative page nothing is kept.
template <int head_dim>
void cache_append_pages(const CacheShape& shape, std::int64_t pages_of_sequence, ConstHeads k, ConstHeads v,
                        const std::int32_t* rows, const std::int32_t* pages, float* keys, float* values) {
#pragma omp parallel for schedule(static)
  for (std::int64_t unit = 0; unit < shape.prompts * shape.kv_heads; ++unit) {
    const std::int64_t prompt = unit / shape.kv_heads, head = unit % shape.kv_heads;
    if (rows[prompt] < 0) continue;
    const std::int32_t* own_pages = pages + rows[prompt] * pages_of_sequence;
    for (std::int64_t token = 0; token < shape.tokens; ++token) {
      const std::int64_t page = own_pages[token / shape.context];
      if (page < 0) continue;
      const float *key = k.at(prompt, token, head), *value = v.at(prompt, token, head);
      const std::int64_t at =
          ((page * shape.kv_heads + head) * shape.context + token % shape.context) * head_dim;
#pragma omp simd
      for (int d = 0; d < head_dim; ++d) {
        keys[at + d] = key[d];
        values[at + d] = value[d];
      }
    }
  }
}

}  // namespace hydrac::cpu
