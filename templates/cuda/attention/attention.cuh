// Attention on CUDA: attention_forward, or with matmuls of 8 bits attention_fp8_operands and
// attention_fp8_forward; and for the backward pass attention_head_gradients where
// attention_owns_heads(), attention_query_terms and attention_gradients where attention_fuses_gradients(),
// and else attention_query_gradients and attention_key_gradients. Each is a device function template over an
// AttentionConfig, and deterministic. A __global__ wrapper binds its constants and pointers:
//
//   constexpr AttentionProblem problem{.capability = 90, .element_bytes = 2, .head_dim = 64, ...};
//   using Config = AttentionConfig<bf16, 64, attention_family(problem),
//                                  attention_tile(problem, AttentionKernel::forward), CausalMask,
//                                  LinearScores, has_dropout>;
//   attention_forward<Config>(shape, q, k, v, out, lse, dropout);
//
// Blocks have Config::threads threads and __launch_bounds__(threads, blocks_per_sm);
// attention_launch(problem, kernel) gives the launch. The hopper family compiles for sm_90a only, not sm_90.
// The forward pass and the last two read alike: RowLoader (rows.cuh) brings tiles to shared memory,
// stream_tiles (stream.cuh) moves on, a matmul policy (matmul_*.cuh) multiplies, softmax.cuh does what stands
// between two matmuls. These and the other headers whose namespace is hydrac take numbers, types and
// functions only: they are the library that specialized kernels include.
#pragma once
#include "cuda/attention/forward.cuh"
#include "cuda/attention/fp8_forward.cuh"
#include "cuda/attention/fp8_operands.cuh"
#include "cuda/attention/gradients.cuh"
#include "cuda/attention/head_gradients.cuh"
#include "cuda/attention/key_gradients.cuh"
#include "cuda/attention/query_gradients.cuh"
#include "cuda/attention/query_terms.cuh"
