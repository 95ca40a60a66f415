// Keys and values of prompts into the cache that attention_decode.h reads.
#pragma once
#include <cstdint>

#include "cpu/attention_types.h"

namespace hydrac::cpu {

// Prompts of `tokens` tokens each; the cache's sequences have room for `context`.
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

}  // namespace hydrac::cpu
