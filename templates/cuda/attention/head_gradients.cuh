// Attention's backward for short sequences on Hopper, in one kernel: a block of threads has a whole head of
// one sequence in shared memory. The formulas stand in query_gradients.cuh.
//
// One or two warpgroups compute. First each takes tiles of keys and goes through the queries that see them:
// d_k and d_v are summed in registers, d_s stays in shared memory. Then each takes tiles of queries, of which
// d_q is d_s k: one sum over all keys, so that nothing is added across warpgroups. Four more warps bring the
// next head of the block as soon as there is room.
#pragma once
#include "cuda/attention/head_terms.cuh"
#include "cuda/attention/product_wgmma.cuh"
#include "cuda/attention/token_sums.cuh"
#include "cuda/attention/transposed_scores.cuh"

namespace hydrac::cuda {

// What head_gradients reads and writes, all of [B,T,H,D] but for lse [B,H,T] and what each warp of a block
// finds as the sums of d_q, d_k and d_v over its tokens, [B,warps,3,H,D]: nullptr where nobody asks for them.
template <class Storage>
struct HeadTensors {
  Heads<const Storage> q, k, v, out;
  const float* lse;
  Heads<const Storage> d_out;
  Heads<Storage> d_q, d_k, d_v;
  float* sums;
};

// A warp copies the tiles of one tensor to shared memory, those of the block's first head, then the next.
template <class Config>
__device__ __forceinline__ void load_head_tiles(const AttentionShape& shape, const HeadShared<Config>& shared,
                                                int tensor,
                                                const Heads<const typename Config::Storage>& from) {
  constexpr int rows = HeadShared<Config>::kTileRows;
  int count = 0;
  for (int row = static_cast<int>(blockIdx.x); row < shape.batch * shape.heads;
       row += static_cast<int>(gridDim.x), ++count) {
    barrier::wait(shared.empty(tensor), count - 1);
    for (int i = HeadShared<Config>::kTiles - 1; i >= 0; --i) {
      start_rows<rows>(shared.tile(tensor, i), from.at(row / shape.heads, i * rows, row % shape.heads),
                       from.token_stride, min(max(shape.tokens - i * rows, 0), rows));
      barrier::arrive_after_copies(shared.full(tensor, i));
    }
  }
}

// One of the warpgroups that compute; `sums_tokens`: the sums of the gradients too.
template <class Config, bool sums_tokens>
class HeadWarpgroup {
 public:
  using Storage = typename Config::Storage;
  using Product = WgmmaProduct<Config>;

  __device__ __forceinline__ HeadWarpgroup(const AttentionShape& shape, const HeadShared<Config>& shared,
                                           const HeadTensors<Storage>& tensors,
                                           const AttentionDropout& dropout)
      : shape_(shape), shared_(shared), tensors_(tensors), dropout_(dropout), own_(in_group_.warp / 4) {
    in_group_.warp %= 4;
  }

  // Takes one head after another.
  __device__ __forceinline__ void run() {
    const int rows = shape_.batch * shape_.heads, step = static_cast<int>(gridDim.x);
    int row = static_cast<int>(blockIdx.x);
    load_terms(row);
#pragma unroll 1
    for (int count = 0; row < rows; row += step, ++count) {
      batch_ = row / shape_.heads, head_ = row % shape_.heads;
      for (int i = 0; i < kTiles; ++i) barrier::wait(shared_.full(3, i), count);
      terms_.store(shared_, shape_.tokens);
      barrier::meet<Config::threads>(1);
#pragma unroll 1
      for (int i = kTiles - 1; i >= 0; --i) {
        if (is_own(i)) make_key_gradients(i, count);
      }
      Product::publish_tiles();
      barrier::meet<Config::threads>(1);
      load_terms(row + step < rows ? row + step
                                   : row);  // without a branch, behind which registers would wait
#pragma unroll 1
      for (int i = kTiles - 1; i >= 0; --i) {
        if (is_own(i)) make_query_gradients(i);
      }
      if constexpr (sums_tokens) store_sums();
    }
  }

 private:
  static constexpr int kTiles = HeadShared<Config>::kTiles, kRows = HeadShared<Config>::kTileRows;
  static constexpr int kDim = Config::head_dim;

  // Whether the warpgroup has a tile of keys: the longest and the shortest, or what is between.
  __device__ __forceinline__ bool is_own(int tile) const {
    return Config::warps == 4 || (tile + 1) / 2 % 2 == own_;
  }
  // Whether it is the last one, as they are taken from the end.
  __device__ __forceinline__ bool is_last(int tile) const {
    return tile == own_;
  }
  __device__ __forceinline__ int valid(int tile) const {
    return min(max(shape_.tokens - tile * kRows, 0), kRows);
  }

  __device__ __forceinline__ void load_terms(int row) {
    terms_.load(tensors_.out, tensors_.lse + static_cast<std::int64_t>(row) * shape_.tokens,
                row / shape_.heads, row % shape_.heads, shape_.tokens);
  }

  // d_k and d_v of a tile of keys, and d_s of all queries that see it.
  __device__ __forceinline__ void make_key_gradients(int key_tile, int count) {
    Fragment<1, kDim> key_sums, value_sums;
    barrier::wait(shared_.full(0, key_tile), count);
    barrier::wait(shared_.full(1, key_tile), count);
    bool add = false;
#pragma unroll 1
    for (int i = kTiles - 1; i >= (Config::causal ? key_tile : 0); --i) {
      barrier::wait(shared_.full(2, i), count);
      Product::publish_tiles();
      Fragment<1, kRows> scores, gradients;
      Product::begin();
      Product::template scores<kRows>(scores, in_group_, shared_.keys(key_tile), shared_.queries(i));
      Product::commit();
      Product::template scores<kRows>(gradients, in_group_, shared_.values(key_tile), shared_.d_outs(i));
      Product::commit();
      Product::template wait<1>();  // also for d_k and d_v of the tile before
      Product::settle(scores);
      const TransposedTile<Config> tile{in_group_,        batch_,    head_,
                                        key_tile * kRows, i * kRows, shared_.terms(i)};
      Fragment<1, kRows> after_dropout;
      const bool masked = Config::causal ? i == key_tile : (key_tile + 1) * kRows > shape_.tokens;
      tile.make_probabilities(scores, after_dropout, shape_, dropout_, masked);
      typename Product::template Weights<kRows> weights, d_weights;
      Product::round(weights, after_dropout);
      Product::settle(value_sums);
      Product::begin();
      Product::template accumulate<kRows>(value_sums, in_group_, weights, shared_.d_outs(i), 0, add);
      Product::commit();
      Product::template wait<1>();
      Product::settle(gradients);
      tile.make_d_scores(gradients, scores, dropout_);
      Product::round(d_weights, gradients);
      store_transposed(shared_.d_scores(i, key_tile), in_group_, d_weights.at[0]);
      Product::settle(key_sums);
      Product::begin();
      Product::template accumulate<kRows>(key_sums, in_group_, d_weights, shared_.queries(i), 0, add);
      Product::commit();
      add = true;
    }
    Product::template wait<0>();
    if (is_last(key_tile) && in_group_.lane == 0) {
      for (int tensor = 1; tensor < HeadShared<Config>::kTensors; ++tensor)
        barrier::arrive(shared_.empty(tensor));
    }
    Product::settle(key_sums);
    Product::settle(value_sums);
    store(tensors_.d_k, key_tile, key_sums, shape_.scale, totals_[1]);
    store(tensors_.d_v, key_tile, value_sums, Config::has_dropout ? dropout_.keep_scale : 1.0f, totals_[2]);
  }

  // d_q of a tile of queries, counted from the last one.
  __device__ __forceinline__ void make_query_gradients(int from_last) {
    const int query_tile = kTiles - 1 - from_last;
    Fragment<1, kDim> sums;
    Product::begin();
#pragma unroll 1
    for (int i = 0; i <= (Config::causal ? query_tile : kTiles - 1); ++i) {
#pragma unroll
      for (int k = 0; k < kRows / 16; ++k) {
        wgmma::multiply_rows<Storage, kDim>(sums.at[0],
                                            wgmma::descriptor(shared_.d_scores(query_tile, i), 0, k * 32),
                                            wgmma::descriptor(shared_.keys(i), 0, k * 16 * 128), i + k > 0);
      }
    }
    Product::commit();
    Product::template wait<0>();
    if (is_last(from_last) && in_group_.lane == 0) barrier::arrive(shared_.empty(0));
    Product::settle(sums);
    store(tensors_.d_q, query_tile, sums, shape_.scale, totals_[0]);
  }

  // Stores a tile of a gradient; its sums over the tokens are those of the rounded numbers.
  __device__ __forceinline__ void store(const Heads<Storage>& to, int tile, Fragment<1, kDim>& sums,
                                        float scale, TokenSums<Storage>& totals) {
    const float factor[1][2] = {{scale, scale}};
    store_rows<Config>(to.at(batch_, tile * kRows, head_), to.token_stride, valid(tile), in_group_, 0, sums,
                       factor);
    if constexpr (sums_tokens) {
      Fragment<1, kDim> scaled = sums;
      scaled.scale_rows(factor);
      typename Product::template Weights<kDim> rounded;
      Product::round(rounded, scaled);
      totals.add(rounded.at[0], in_group_.lane);
    }
  }

  // Of the head, whose sums begin again.
  __device__ __forceinline__ void store_sums() {
    const int row = batch_ * Config::warps + own_ * 4 + in_group_.warp;
#pragma unroll
    for (int tensor = 0; tensor < 3; ++tensor) {
      totals_[tensor].take(
          tensors_.sums + (std::int64_t{row} * 3 + tensor) * shape_.heads * kDim + head_ * kDim,
          in_group_.lane);
    }
  }

  const AttentionShape& shape_;
  const HeadShared<Config>& shared_;
  const HeadTensors<Storage>& tensors_;
  const AttentionDropout& dropout_;
  Place in_group_;  // in the warpgroup's tile
  int own_;         // which of the warpgroups
  int batch_ = 0, head_ = 0;
  HeadTerms<Config> terms_;
  TokenSums<Storage> totals_[3];  // of d_q, d_k, d_v
};

// A block of attention_head_gradients.
template <class Config, bool sums_tokens>
__device__ __forceinline__ void run_head_gradients(const AttentionShape& shape,
                                                   const HeadTensors<typename Config::Storage>& tensors,
                                                   const AttentionDropout& dropout) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const HeadShared<Config> shared{ptx::shared_address(shared_memory)};
  if (threadIdx.x == 0) {
    shared.init_barriers();
    ptx::fence_async_proxy();
  }
  __syncthreads();
  const int helper = Place().warp - Config::warps;
  if (helper >= 0) {
    ptx::shrink_registers<40>();
    if (helper == 0) load_head_tiles<Config>(shape, shared, 0, tensors.k);
    if (helper == 1) load_head_tiles<Config>(shape, shared, 1, tensors.v);
    if (helper == 2) load_head_tiles<Config>(shape, shared, 2, tensors.q);
    if (helper == 3) load_head_tiles<Config>(shape, shared, 3, tensors.d_out);
  } else {
    ptx::grow_registers<Config::warps == 4 ? 216 : 232>();
    HeadWarpgroup<Config, sums_tokens>(shape, shared, tensors, dropout).run();
  }
}

// Launch: attention_launch(problem, AttentionKernel::head_gradients). Writes all of d_q, d_k and d_v. out,
// d_out: [B,T,H*D] seen as heads; lse [B,H,T] from the forward pass.
template <class Config>
__device__ __forceinline__ void attention_head_gradients(
    const AttentionShape& shape, Heads<const typename Config::Storage> q,
    Heads<const typename Config::Storage> k, Heads<const typename Config::Storage> v,
    Heads<const typename Config::Storage> out, const float* lse, Heads<const typename Config::Storage> d_out,
    Heads<typename Config::Storage> d_q, Heads<typename Config::Storage> d_k,
    Heads<typename Config::Storage> d_v, const AttentionDropout& dropout) {
  const HeadTensors<typename Config::Storage> tensors{q, k, v, out, lse, d_out, d_q, d_k, d_v, nullptr};
  run_head_gradients<Config, false>(shape, tensors, dropout);
}

// The same, and all of `sums`: attention_sums_rows(problem) rows of [3,H,D], which together are the sums of
// d_q, d_k and d_v over all tokens.
template <class Config>
__device__ __forceinline__ void attention_head_gradients_with_sums(
    const AttentionShape& shape, Heads<const typename Config::Storage> q,
    Heads<const typename Config::Storage> k, Heads<const typename Config::Storage> v,
    Heads<const typename Config::Storage> out, const float* lse, Heads<const typename Config::Storage> d_out,
    Heads<typename Config::Storage> d_q, Heads<typename Config::Storage> d_k,
    Heads<typename Config::Storage> d_v, float* sums, const AttentionDropout& dropout) {
  const HeadTensors<typename Config::Storage> tensors{q, k, v, out, lse, d_out, d_q, d_k, d_v, sums};
  run_head_gradients<Config, true>(shape, tensors, dropout);
}

}  // namespace hydrac::cuda
