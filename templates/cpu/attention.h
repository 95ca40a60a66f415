// Attention on the CPU, forward and backward, float32: tiles of scores stay in cache and no [T,T] matrix is
// kept. q, out, dout, dq are [B,T,H,D]; k, v, dk, dv are [B,T,KV,D]; H is a multiple of KV and query head h
// reads kv head h / (H/KV). Every tensor is read through strides, so a packed qkv row needs no copy. Results
// have the same bits on any number of threads. `shape` is an AttentionShape, or for a DocumentMask a
// PackedShape with the documents of all sequences [B,T,2].
#pragma once
#include <cstddef>

#include "cpu/attention_backward.h"
#include "cpu/attention_forward.h"
#include "cpu/attention_types.h"

namespace hydrac::cpu {

// Bytes of scratch memory for up to `threads` threads.
template <int head_dim>
constexpr std::size_t attention_forward_workspace(const AttentionShape& shape, int threads);
template <int head_dim>
constexpr std::size_t attention_backward_workspace(const AttentionShape& shape, int threads);

}  // namespace hydrac::cpu
