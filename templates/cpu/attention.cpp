// Attention for one choice of constants, as two plain C functions. hydrac binds the constants for each
// attention op of a program; as it stands the file compiles for heads of 64, causal, without dropout.
#include "cpu/attention.h"

namespace hydrac::cpu {

constexpr int head_dim = 64;
using Mask = CausalMask;
using Scores = LinearScores;
constexpr bool has_dropout = false;
// Batch, tokens, query heads, kv heads, scale.
constexpr AttentionShape shape{32, 256, 6, 6, 0.125f};

}  // namespace hydrac::cpu

extern "C" {

// q, k, v and out as attention.h says; lse [B,H,T].
void attention_forward(const hydrac::cpu::ConstHeads* q, const hydrac::cpu::ConstHeads* k,
                       const hydrac::cpu::ConstHeads* v, const hydrac::cpu::MutableHeads* out, float* lse,
                       const hydrac::cpu::AttentionDropout* dropout,
                       const hydrac::cpu::AttentionWorkspace* workspace) {
  using namespace hydrac::cpu;
  hydrac::cpu::attention_forward<head_dim, Mask, Scores, has_dropout>(shape, *q, *k, *v, *out, lse, *dropout,
                                                                      *workspace);
}

void attention_backward(const hydrac::cpu::ConstHeads* q, const hydrac::cpu::ConstHeads* k,
                        const hydrac::cpu::ConstHeads* v, const hydrac::cpu::ConstHeads* out,
                        const float* lse, const hydrac::cpu::ConstHeads* dout,
                        const hydrac::cpu::MutableHeads* dq, const hydrac::cpu::MutableHeads* dk,
                        const hydrac::cpu::MutableHeads* dv, const hydrac::cpu::AttentionDropout* dropout,
                        const hydrac::cpu::AttentionWorkspace* workspace) {
  using namespace hydrac::cpu;
  hydrac::cpu::attention_backward<head_dim, Mask, Scores, has_dropout>(shape, *q, *k, *v, *out, lse, *dout,
                                                                       *dq, *dk, *dv, *dropout, *workspace);
}

// Bytes of scratch memory that the two need for up to `threads` threads.
unsigned long attention_forward_workspace(int threads) {
  return hydrac::cpu::attention_forward_workspace<hydrac::cpu::head_dim>(hydrac::cpu::shape, threads);
}
unsigned long attention_backward_workspace(int threads) {
  return hydrac::cpu::attention_backward_workspace<hydrac::cpu::head_dim>(hydrac::cpu::shape, threads);
}
}
