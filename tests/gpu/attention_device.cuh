// Launches the attention kernels on packed tensors, as generated programs do: qkv [B,T,(H+2K)*D] and its
// gradient, out and d_out [B,T,H*D], lse [B,H,T].
#pragma once
#include "cuda/attention/attention.cuh"
#include "device_array.cuh"

namespace hydrac::test {

template <class Storage>
struct DeviceTensors {
  const Storage *qkv, *d_out;
  Storage *out, *d_qkv;
  float* lse;
  void* workspace;                          // the backward pass's; of head_gradients its sums
  const std::int32_t* documents = nullptr;  // [B,T,2], of a DocumentMask
};

// Views of the packed tensors.
template <class T>
HYDRAC_FN Heads<T> packed_heads(T* data, const AttentionShape& shape, int head_dim, int first_head) {
  const std::int64_t token = static_cast<std::int64_t>(shape.heads + 2 * shape.kv_heads) * head_dim;
  return {data + static_cast<std::int64_t>(first_head) * head_dim, token * shape.tokens, token, head_dim};
}
template <class T>
HYDRAC_FN Heads<T> out_heads(T* data, const AttentionShape& shape, int head_dim) {
  const std::int64_t token = static_cast<std::int64_t>(shape.heads) * head_dim;
  return {data, token * shape.tokens, token, head_dim};
}

// What a kernel reads of the sequence that its block works on.
template <class Config, bool of_keys>
__device__ auto sequence(const AttentionShape& shape, const std::int32_t* documents) {
  if constexpr (Config::Mask::has_documents) {
    const int batch =
        of_keys ? cuda::sequence_of_keys<Config>(shape) : cuda::sequence_of_queries<Config>(shape);
    return cuda::PackedShape{shape, documents + std::int64_t{2} * shape.tokens * batch};
  } else {
    return shape;
  }
}

// Generated kernels bind their shape as constants; so do these if `constant` is given.
template <class Config, AttentionShape constant>
__global__ void __launch_bounds__(Config::tile.threads(), Config::tile.blocks_per_sm)
    forward(DeviceTensors<typename Config::Storage> x, AttentionShape variable, AttentionDropout dropout) {
  const AttentionShape shape = constant.batch > 0 ? constant : variable;
  constexpr int D = Config::head_dim;
  cuda::attention_forward<Config>(
      sequence<Config, false>(shape, x.documents), packed_heads(x.qkv, shape, D, 0),
      packed_heads(x.qkv, shape, D, shape.heads), packed_heads(x.qkv, shape, D, shape.heads + shape.kv_heads),
      out_heads(x.out, shape, D), x.lse, dropout);
}

template <class Config, AttentionShape constant>
__global__ void __launch_bounds__(Config::tile.threads(), Config::tile.blocks_per_sm)
    query_gradients(DeviceTensors<typename Config::Storage> x, AttentionShape variable,
                    AttentionDropout dropout) {
  const AttentionShape shape = constant.batch > 0 ? constant : variable;
  using Storage = typename Config::Storage;
  constexpr int D = Config::head_dim;
  cuda::attention_query_gradients<Config>(
      sequence<Config, false>(shape, x.documents), packed_heads(x.qkv, shape, D, 0),
      packed_heads(x.qkv, shape, D, shape.heads), packed_heads(x.qkv, shape, D, shape.heads + shape.kv_heads),
      out_heads<const Storage>(x.out, shape, D), x.lse, out_heads(x.d_out, shape, D),
      packed_heads(x.d_qkv, shape, D, 0), static_cast<QueryTerms*>(x.workspace), dropout);
}

template <class Config, AttentionShape constant>
__global__ void __launch_bounds__(Config::tile.threads(), Config::tile.blocks_per_sm)
    key_gradients(DeviceTensors<typename Config::Storage> x, AttentionShape variable,
                  AttentionDropout dropout) {
  const AttentionShape shape = constant.batch > 0 ? constant : variable;
  constexpr int D = Config::head_dim;
  cuda::attention_key_gradients<Config>(
      sequence<Config, true>(shape, x.documents), packed_heads(x.qkv, shape, D, 0),
      packed_heads(x.qkv, shape, D, shape.heads), packed_heads(x.qkv, shape, D, shape.heads + shape.kv_heads),
      out_heads(x.d_out, shape, D), static_cast<const QueryTerms*>(x.workspace),
      packed_heads(x.d_qkv, shape, D, shape.heads),
      packed_heads(x.d_qkv, shape, D, shape.heads + shape.kv_heads), dropout);
}

template <class Config, AttentionShape constant>
__global__ void __launch_bounds__(Config::tile.threads(), Config::tile.blocks_per_sm)
    query_terms(DeviceTensors<typename Config::Storage> x, AttentionShape variable, AttentionDropout) {
  const AttentionShape shape = constant.batch > 0 ? constant : variable;
  using Storage = typename Config::Storage;
  constexpr int D = Config::head_dim;
  cuda::attention_query_terms<Config>(shape, out_heads<const Storage>(x.out, shape, D), x.lse,
                                      out_heads(x.d_out, shape, D), x.workspace);
}

template <class Config, AttentionShape constant>
__global__ void __launch_bounds__(attention_threads(Config::tile, cuda::AttentionKernel::gradients),
                                  Config::tile.blocks_per_sm)
    gradients(DeviceTensors<typename Config::Storage> x, AttentionShape variable, AttentionDropout dropout) {
  const AttentionShape shape = constant.batch > 0 ? constant : variable;
  constexpr int D = Config::head_dim;
  cuda::attention_gradients<Config>(
      shape, packed_heads(x.qkv, shape, D, 0), packed_heads(x.qkv, shape, D, shape.heads),
      packed_heads(x.qkv, shape, D, shape.heads + shape.kv_heads), out_heads(x.d_out, shape, D),
      packed_heads(x.d_qkv, shape, D, 0), packed_heads(x.d_qkv, shape, D, shape.heads),
      packed_heads(x.d_qkv, shape, D, shape.heads + shape.kv_heads), x.workspace, dropout);
}

template <class Config, bool sums_tokens, AttentionShape constant>
__global__ void __launch_bounds__(attention_threads(Config::tile, cuda::AttentionKernel::head_gradients),
                                  Config::tile.blocks_per_sm)
    head_gradients(DeviceTensors<typename Config::Storage> x, AttentionShape variable,
                   AttentionDropout dropout) {
  const AttentionShape shape = constant.batch > 0 ? constant : variable;
  using Storage = typename Config::Storage;
  constexpr int D = Config::head_dim;
  const auto q = packed_heads(x.qkv, shape, D, 0), k = packed_heads(x.qkv, shape, D, shape.heads),
             v = packed_heads(x.qkv, shape, D, 2 * shape.heads),
             out = out_heads<const Storage>(x.out, shape, D), d_out = out_heads(x.d_out, shape, D);
  const auto d_q = packed_heads(x.d_qkv, shape, D, 0), d_k = packed_heads(x.d_qkv, shape, D, shape.heads),
             d_v = packed_heads(x.d_qkv, shape, D, 2 * shape.heads);
  if constexpr (sums_tokens) {
    cuda::attention_head_gradients_with_sums<Config>(shape, q, k, v, out, x.lse, d_out, d_q, d_k, d_v,
                                                     static_cast<float*>(x.workspace), dropout);
  } else {
    cuda::attention_head_gradients<Config>(shape, q, k, v, out, x.lse, d_out, d_q, d_k, d_v, dropout);
  }
}

// The kernels of one problem.
template <class Storage, int head_dim, int capability, class Mask, class Scores, bool has_dropout,
          AttentionShape constant = AttentionShape{}>
struct Attention {
  static constexpr cuda::AttentionProblem kind{
      capability, sizeof(Storage),   __is_same(Storage, bf16), has_dropout,        1, 1, 1, 1,
      head_dim,   Mask::hides_later, !Scores::is_linear,       Mask::has_documents};
  static constexpr cuda::AttentionProblem problem_of(const AttentionShape& shape) {
    cuda::AttentionProblem problem = kind;
    problem.batch = shape.batch, problem.tokens = shape.tokens;
    problem.heads = shape.heads, problem.kv_heads = shape.kv_heads;
    return problem;
  }

  template <cuda::AttentionKernel kernel, int tokens = 1>
  using Config = cuda::AttentionConfig<Storage, head_dim, cuda::attention_family(kind),
                                       cuda::attention_tile(problem_of({{tokens, 1, 1, 1.0f}, 1}), kernel),
                                       Mask, Scores, has_dropout>;

  template <cuda::AttentionKernel kernel, class Kernel>
  static void launch(Kernel* function, const AttentionShape& shape, const DeviceTensors<Storage>& x,
                     const AttentionDropout& dropout) {
    const cuda::AttentionLaunch launch = cuda::attention_launch(problem_of(shape), kernel);
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(launch.shared_bytes)),
          "cudaFuncSetAttribute");
    function<<<launch.grid, launch.threads, launch.shared_bytes>>>(x, shape, dropout);
    check(cudaGetLastError(), "launch");
  }

  using Kernels = cuda::AttentionKernel;
  static void run_forward(const AttentionShape& shape, const DeviceTensors<Storage>& x,
                          const AttentionDropout& dropout) {
    launch<Kernels::forward>(forward<Config<Kernels::forward>, constant>, shape, x, dropout);
  }
  static void run_query_gradients(const AttentionShape& shape, const DeviceTensors<Storage>& x,
                                  const AttentionDropout& dropout) {
    launch<Kernels::query_gradients>(query_gradients<Config<Kernels::query_gradients>, constant>, shape, x,
                                     dropout);
  }
  static void run_key_gradients(const AttentionShape& shape, const DeviceTensors<Storage>& x,
                                const AttentionDropout& dropout) {
    launch<Kernels::key_gradients>(key_gradients<Config<Kernels::key_gradients>, constant>, shape, x,
                                   dropout);
  }

  // Whether the chip has the kernel that makes all gradients, also where the pair is chosen for its speed.
  static constexpr bool can_fuse = cuda::attention_family(kind) == AttentionFamily::hopper &&
                                   head_dim == kGradientDim && !Mask::has_documents;
  static void run_gradients(const AttentionShape& shape, const DeviceTensors<Storage>& x,
                            const AttentionDropout& dropout) {
    static_assert(can_fuse);
    launch<Kernels::query_terms>(query_terms<Config<Kernels::query_terms>, constant>, shape, x, dropout);
    launch<Kernels::gradients>(gradients<Config<Kernels::gradients>, constant>, shape, x, dropout);
  }

  // The kernel for sequences that have as many tiles of 64 tokens as `tokens` have. `sums_tokens`: with the
  // sums of the gradients.
  template <int tokens, bool sums_tokens>
  static void run_head_gradients(const AttentionShape& shape, const DeviceTensors<Storage>& x,
                                 const AttentionDropout& dropout) {
    launch<Kernels::head_gradients>(
        head_gradients<Config<Kernels::head_gradients, tokens>, sums_tokens, constant>, shape, x, dropout);
  }
  template <bool sums_tokens>
  static void run_head_gradients(const AttentionShape& shape, const DeviceTensors<Storage>& x,
                                 const AttentionDropout& dropout) {
    static_assert(can_fuse);
    if (shape.tokens <= 64) return run_head_gradients<64, sums_tokens>(shape, x, dropout);
    if (shape.tokens <= 128) return run_head_gradients<128, sums_tokens>(shape, x, dropout);
    if (shape.tokens <= 192) return run_head_gradients<192, sums_tokens>(shape, x, dropout);
    if constexpr (Mask::hides_later) run_head_gradients<256, sums_tokens>(shape, x, dropout);
  }
};

}  // namespace hydrac::test
