// The types that attention takes: views of tensors, its shape, its scratch memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hydrac::cpu {

// A [B,T,heads,D] tensor. Strides count floats; the D elements of one head are contiguous.
template <class Float>
struct Heads {
  Float* data;
  std::int64_t batch_stride, token_stride, head_stride;

  Float* at(std::int64_t batch, std::int64_t token, std::int64_t head) const {
    return data + batch * batch_stride + token * token_stride + head * head_stride;
  }
};
using ConstHeads = Heads<const float>;
using MutableHeads = Heads<float>;

// Settings that do not change while a program runs: one constant of this type per attention op.
struct AttentionShape {
  std::int64_t batch, tokens, heads, kv_heads;
  float scale;              // scores are scale * q . k
  std::int64_t window = 0;  // how many tokens a query sees, its own among them, where masks limit it
  float softcap = 0.0f;     // what no score is larger than, where there is such a limit
};

// Dropout on the probabilities, after the softmax: element (b,h,i,j) is kept where
// random_16_bits(key, score_index(b*H + h, T, i, j)) >= threshold, and then multiplied by keep_scale.
struct AttentionDropout {
  std::uint32_t key;
  std::uint32_t threshold;  // p * 2^16
  float keep_scale;         // 1 / (1 - p)
};

// Scratch memory that the caller owns, aligned to 64 bytes, of any content. `threads` is the number it was
// sized for; no more than that many run.
struct AttentionWorkspace {
  void* data;
  int threads;
};

}  // namespace hydrac::cpu
