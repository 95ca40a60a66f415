// Variants and arguments of the attention kernels: plain data that host and device share.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

// The unit that computes the matmuls.
enum class AttentionFamily {
  plain,   // float multiply-adds: float32 storage, and every type on every chip
  mma,     // mma.sync on 16-bit types: bf16 from sm_80 on, f16 from sm_75 on
  hopper,  // wgmma on 16-bit types: sm_90a, head_dim 64, and 128 without dropout and softcap
};

// How one block of threads works: it owns warps * 16 * row_tiles rows (queries, or keys in key_gradients) and
// goes through the other side `columns` at a time, with `stages` tiles of them in shared memory.
struct AttentionTile {
  int warps;
  int row_tiles;  // of 16 rows, a warp
  int columns;
  int stages;
  int blocks_per_sm;  // what registers are limited for
  int parts = 1;      // blocks that share rows and split the columns of d_k and d_v

  HYDRAC_FN constexpr int rows() const { return warps * 16 * row_tiles; }
  HYDRAC_FN constexpr int threads() const { return warps * 32; }
};

// Head dimensions are padded to the depth of one mma in shared memory and registers.
HYDRAC_FN constexpr int padded_head_dim(std::int64_t head_dim) {
  return static_cast<int>((head_dim + 15) / 16 * 16);
}

// Bytes of one row in shared memory. Rows of ldmatrix tiles are 16 bytes longer than their data, an odd
// number of 16 bytes, so that eight rows touch all banks once; wgmma's are swizzled instead.
HYDRAC_FN constexpr int attention_row_bytes(bool is_swizzled, int head_dim, int element_bytes) {
  return padded_head_dim(head_dim) * element_bytes + (is_swizzled ? 0 : 16);
}

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

// Facts for a kernel that takes the number of sequences from its grid.
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

}  // namespace hydrac
