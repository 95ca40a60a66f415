// Attention on the CPU, forward and backward, float32: tiles of scores stay in cache and no [T,T] matrix is
// kept. q, out, dout, dq are [B,T,H,D]; k, v, dk, dv are [B,T,KV,D]; H is a multiple of KV and query head h
// reads kv head h / (H/KV). Every tensor is read through strides, so a packed qkv row needs no copy. Results
// have the same bits on any number of threads.
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

// out = softmax(scores of q k^T) v; Mask and Scores are policies of attention/mask.h and attention/scores.h.
// lse [B,H,T], dense, receives the logarithm of the sum of exp of each row's scores: the backward needs it.
// head_dim is a multiple of 8. `dropout` is read only when has_dropout. out must overlap no input.
template <int head_dim, class Mask, class Scores, bool has_dropout>
void attention_forward(const AttentionShape& shape, ConstHeads q, ConstHeads k, ConstHeads v,
                       MutableHeads out, float* lse, const AttentionDropout& dropout,
                       AttentionWorkspace workspace);

// The gradients of q, k and v; all three are overwritten, and none may overlap an input. `out` and `lse` are
// what the forward wrote; dropout must be the forward's.
template <int head_dim, class Mask, class Scores, bool has_dropout>
void attention_backward(const AttentionShape& shape, ConstHeads q, ConstHeads k, ConstHeads v, ConstHeads out,
                        const float* lse, ConstHeads dout, MutableHeads dq, MutableHeads dk, MutableHeads dv,
                        const AttentionDropout& dropout, AttentionWorkspace workspace);

}  // namespace hydrac::cpu
