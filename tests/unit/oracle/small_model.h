// Two small transformers that between them use every differentiable operation.
#pragma once
#include "job_folder.h"

namespace hydrac::oracle {

// Two layers of a GPT-2 kind: learned positions, layernorm, one qkv matmul, dropout, gelu_tanh, tied head,
// cross-entropy with smoothing. Batch 2, length 3, width 4, 2 heads, vocabulary 5.
void build_gpt(JobFolder& job);

// One layer of a Llama kind over features: rmsnorm, qk-norm, rope, grouped heads, swiglu, geglu, mse with a
// missing target. Batch 2, length 3, 3 features, width 4, 2 heads, 1 key-value head.
void build_llama(JobFolder& job);

}  // namespace hydrac::oracle
