// What the attention kernels take: plain data that host and device share.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac::cuda {

// A [B,T,heads,D] tensor read or written in place, for instance one third of a packed qkv matmul. Strides
// count elements; the D elements of one head are contiguous. Data and strides are multiples of 16 bytes.
template <class T>
struct Heads {
  T* data;
  std::int64_t batch_stride, token_stride, head_stride;

  HYDRAC_FN T* at(std::int64_t batch, std::int64_t token, std::int64_t head) const {
    return data + batch * batch_stride + token * token_stride + head * head_stride;
  }
};

// What a kernel has to know that takes the number of sequences from its grid.
struct SequenceShape {
  int tokens, heads, kv_heads;  // query head h reads kv head h / (heads / kv_heads)
  float scale;                  // scores are scale * q . k
  int window = 0;               // how many tokens a query sees, its own among them, where masks limit it
  float softcap = 0.0f;         // what no score is larger than, where there is such a limit
};

struct AttentionShape : SequenceShape {
  int batch;  // sequences
};

// Dropout on the probabilities, after the softmax: element (b,h,i,j) is kept where
// random_16_bits(key, score_index(b*H + h, T, i, j)) >= threshold, and then multiplied by keep_scale.
struct AttentionDropout {
  std::uint32_t key;
  std::uint32_t threshold;  // p * 2^16
  float keep_scale;         // 1 / (1 - p)
};

// The workspace of the backward pass is one of these for each query, [B,H,T].
struct alignas(8) QueryTerms {
  float lse2;   // log2 of the softmax's denominator
  float delta;  // d_out . out: what the softmax's gradient subtracts
};

}  // namespace hydrac::cuda
