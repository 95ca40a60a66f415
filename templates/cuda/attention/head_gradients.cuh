// Attention's backward for short sequences on Hopper, in one kernel: a block of threads has a whole head of
// one sequence in shared memory. The formulas: cuda/attention/query_gradients.cuh.
//
// One or two warpgroups take tiles of keys and go through the queries that see them, from the last ones on:
// d_k and d_v are summed in registers, d_s is left in shared memory. As soon as all d_s of a tile of queries
// are there, another warpgroup multiplies them with the keys: d_q is one sum over all keys, and nothing is
// added across warpgroups. Four more warps load: the last tokens of a head are done with first, and those of
// the next head take their place.
#pragma once
#include "cuda/attention/head_loader.cuh"
#include "cuda/attention/matmul.cuh"
#include "cuda/attention/token_sums.cuh"
#include "cuda/attention/transposed_scores.cuh"

namespace hydrac::cuda {

// One of the warpgroups that compute, with the sums of the gradients where they are wanted.
template <class Config, bool sums_tokens>
class HeadWarpgroup {
 public:
  using Storage = typename Config::Storage;
  using Matmul = WgmmaMatmul<Storage, Config::rows, Config::head_dim>;
  using Shared = HeadShared<Config>;

  __device__ __forceinline__ HeadWarpgroup(const AttentionShape& shape, const Shared& shared,
                                           const HeadTensors<Storage>& tensors)
      : shape_(shape), shared_(shared), tensors_(tensors), own_(in_group_.warp / 4) {
    in_group_.warp %= 4;
  }

  // Makes the gradients of keys and values, of one head after another; of a single tile those of queries too.
  __device__ __forceinline__ void run_keys(const AttentionDropout& dropout) {
    const int rows = shape_.batch * shape_.heads, step = static_cast<int>(gridDim.x);
#pragma unroll 1
    for (int row = static_cast<int>(blockIdx.x), count = 0; row < rows; row += step, ++count) {
      batch_ = row / shape_.heads, head_ = row % shape_.heads;
#pragma unroll 1
      for (int i = kTiles - 1; i >= 0; --i) {
        if (is_own(i)) make_key_gradients(i, count, dropout);
      }
      if constexpr (kTiles == 1) make_query_gradients(0, count);
      if constexpr (sums_tokens) {
        const int sums_row = own_ * 4 + in_group_.warp;
        if (kTiles == 1) store_sums(sums_row, 0, totals_[0]);
        store_sums(sums_row, 1, totals_[1]);
        store_sums(sums_row, 2, totals_[2]);
      }
    }
  }

  // Makes the gradients of queries, for which the other warpgroups leave d_s.
  __device__ __forceinline__ void run_queries() {
    const int rows = shape_.batch * shape_.heads, step = static_cast<int>(gridDim.x);
#pragma unroll 1
    for (int row = static_cast<int>(blockIdx.x), count = 0; row < rows; row += step, ++count) {
      batch_ = row / shape_.heads, head_ = row % shape_.heads;
#pragma unroll 1
      for (int i = kTiles - 1; i >= 0; --i) {
        barrier::wait(shared_.has_d_scores(i), count);
        make_query_gradients(i, count);
      }
      if constexpr (sums_tokens) {
        TokenSums<Storage> none;
        store_sums(in_group_.warp, 0, totals_[0]);
        store_sums(in_group_.warp + 4, 0, none);
      }
    }
  }

 private:
  static constexpr int kTiles = Shared::kTiles, kRows = Shared::kTileRows;
  static constexpr int kDim = Config::head_dim;

  // True if the warpgroup has a tile of keys: the longest and the shortest, or what is between.
  __device__ __forceinline__ bool is_own(int tile) const {
    return Config::warps == 4 || (tile + 1) / 2 % 2 == own_;
  }
  // True for the last one, as they are taken from the end.
  __device__ __forceinline__ bool is_last(int tile) const {
    return tile == own_;
  }
  __device__ __forceinline__ int valid(int tile) const {
    return min(max(shape_.tokens - tile * kRows, 0), kRows);
  }
  __device__ __forceinline__ void arrive(std::uint32_t barrier) const {
    __syncwarp();  // all lanes are done with the tile before the warp says so
    if (in_group_.lane == 0) barrier::arrive(barrier);
  }

  // d_k and d_v of a tile of keys, and d_s of all queries that see it.
  __device__ __forceinline__ void make_key_gradients(int key_tile, int count,
                                                     const AttentionDropout& dropout) {
    Fragment<1, kDim> key_sums, value_sums;
    const int key_number = Shared::number(count, key_tile);
    barrier::wait(shared_.full(key_number), Shared::phase(key_number));
    bool add = false;
#pragma unroll 1
    for (int i = kTiles - 1; i >= (Config::causal ? key_tile : 0); --i) {
      const int number = Shared::number(count, i);
      barrier::wait(shared_.full(number), Shared::phase(number));
      Fragment<1, kRows> scores, gradients;
      Matmul::begin();
      Matmul::scores(scores, in_group_, shared_.keys(key_number), shared_.queries(number));
      Matmul::commit();
      Matmul::scores(gradients, in_group_, shared_.values(key_number), shared_.d_outs(number));
      Matmul::commit();
      Matmul::wait_for_all_but_last();  // also for d_k and d_v of the tile before
      Matmul::fence_operands(scores);
      if (Config::causal && is_last(key_tile) && add) arrive(shared_.empty(Shared::number(count, i + 1)));
      barrier::wait(shared_.has_terms(number), Shared::phase(number));
      const TransposedTile<Config> tile{in_group_, batch_ * shape_.heads + head_, key_tile * kRows,
                                        i * kRows};
      ColumnTerms<kRows> lse2, delta;
      lse2.load(shared_.terms(number), in_group_);
      Fragment<1, kRows> value_weights;
      const SequenceShape& sequence = shape_;
      const bool masked = !sees_all<typename Config::Mask>(sequence, {i * kRows, (i + 1) * kRows},
                                                           {key_tile * kRows, (key_tile + 1) * kRows});
      tile.make_probabilities(scores, value_weights, lse2, sequence, dropout, masked);
      WeightsOf<Matmul, kRows> weights, d_weights;
      Matmul::round(weights, value_weights);
      Matmul::fence_operands(value_sums);
      Matmul::begin();
      Matmul::accumulate(value_sums, in_group_, weights, shared_.d_outs(number), add);
      Matmul::commit();
      Matmul::wait_for_all_but_last();
      Matmul::fence_operands(gradients);
      delta.load(shared_.terms(number) + kRows * 4, in_group_);
      tile.make_d_scores(gradients, scores, delta, dropout);
      Matmul::round(d_weights, gradients);
      store_d_scores(i, key_tile, count, d_weights);
      Matmul::fence_operands(key_sums);
      Matmul::begin();
      Matmul::accumulate(key_sums, in_group_, d_weights, shared_.queries(number), add);
      Matmul::commit();
      add = true;
    }
    Matmul::wait_for_all();
    if (kTiles > 1 && is_last(key_tile)) {
      for (int i = Config::causal ? key_tile : kTiles - 1; i >= 0; --i)
        arrive(shared_.empty(Shared::number(count, i)));
    }
    Matmul::fence_operands(key_sums);
    Matmul::fence_operands(value_sums);
    store(tensors_.d_k, key_tile, key_sums, shape_.scale, totals_[1]);
    store(tensors_.d_v, key_tile, value_sums, Config::has_dropout ? dropout.keep_scale : 1.0f, totals_[2]);
  }

  // Leaves d_s for those who multiply it with the keys.
  template <class Weights>
  __device__ __forceinline__ void store_d_scores(int query_tile, int key_tile, int count,
                                                 const Weights& d_scores) {
    if constexpr (kTiles > 1) {
      shared_.wait_for_room(query_tile, key_tile, count);
    } else {
      barrier::block_sync<Config::threads>(1);  // those of the head before are multiplied
    }
    store_transposed(shared_.d_scores(query_tile, key_tile), in_group_, d_scores.at[0]);
    Matmul::publish_tiles();
    if constexpr (kTiles > 1) {
      __syncwarp();  // the warp's part of d_s is stored before it says so
      arrive(shared_.has_d_scores(query_tile));
    } else {
      barrier::block_sync<Config::threads>(1);  // d_s is there
    }
  }

  // d_q of a tile of queries.
  __device__ __forceinline__ void make_query_gradients(int query_tile, int count) {
    Fragment<1, kDim> sums;
    Matmul::begin();
#pragma unroll 1
    for (int i = 0; i <= (Config::causal ? query_tile : kTiles - 1); ++i) {
      const std::uint32_t keys = shared_.keys(Shared::number(count, i));
#pragma unroll
      for (int k = 0; k < kRows / 16; ++k) {
        wgmma::multiply_rows<Storage, kDim>(sums.at[0],
                                            wgmma::descriptor(shared_.d_scores(query_tile, i), 0, k * 32),
                                            wgmma::descriptor(keys, 0, k * 16 * 128), i + k > 0);
      }
    }
    Matmul::commit();
    Matmul::wait_for_all();
    if (kTiles > 1) arrive(shared_.multiplied(query_tile));
    if (Config::causal || kTiles == 1) {
      arrive(shared_.empty(Shared::number(count, query_tile)));
    } else if (query_tile == 0) {
      for (int i = 0; i < kTiles; ++i) arrive(shared_.empty(Shared::number(count, i)));
    }
    Matmul::fence_operands(sums);
    store(tensors_.d_q, query_tile, sums, shape_.scale, totals_[0]);
  }

  // Stores a tile of a gradient; its sums over the tokens are those of the rounded numbers.
  __device__ __forceinline__ void store(const Heads<Storage>& to, int tile, Fragment<1, kDim>& sums,
                                        float scale, TokenSums<Storage>& totals) {
    const float factor[1][2] = {{scale, scale}};
    store_rows<Config::head_dim>(to.at(batch_, tile * kRows, head_), to.token_stride, valid(tile), in_group_,
                                 0, sums, factor);
    if constexpr (sums_tokens) {
      Fragment<1, kDim> scaled = sums;
      scaled.scale_rows(factor);
      WeightsOf<Matmul, kDim> rounded;
      Matmul::round(rounded, scaled);
      totals.add(rounded.at[0], in_group_.lane);
    }
  }

  // Stores the head's sums, which begin again.
  __device__ __forceinline__ void store_sums(int row, int tensor, TokenSums<Storage>& totals) {
    const std::int64_t to = std::int64_t{batch_ * Config::warps + row} * 3 + tensor;
    totals.take(tensors_.sums + to * shape_.heads * kDim + head_ * kDim, in_group_.lane);
  }

  const AttentionShape& shape_;
  const Shared& shared_;
  const HeadTensors<Storage>& tensors_;
  Place in_group_;  // in the warpgroup's tile
  int own_;         // which of the warpgroups
  int batch_ = 0, head_ = 0;
  TokenSums<Storage> totals_[3];  // of d_q, d_k, d_v
};

// Beside the threads that make d_k and d_v, a warpgroup that loads, and one that makes d_q unless there is
// but one tile of tokens.
template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_head_gradients() {
  using Shared = HeadShared<Config>;
  static_assert(Shared::bytes() == detail::head_gradients_shared_bytes(Config::stages, Config::causal),
                "as it is planned");
  return {Config::rows, Config::threads + (Shared::kTiles > 1 ? 2 : 1) * 128, Shared::bytes()};
}

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
  __syncthreads();  // barriers are initialized before anyone waits on them
  constexpr bool splits_work = HeadShared<Config>::kTiles > 1;
  const int warp = Place().warp;
  if (warp < Config::warps) {
    ptx::grow_registers<splits_work ? 192 : 200>();
    HeadWarpgroup<Config, sums_tokens>(shape, shared, tensors).run_keys(dropout);
  } else if (warp < Config::warps + 4) {
    ptx::shrink_registers<56>();
    HeadLoader<Config>(shape, shared, tensors, warp - Config::warps).run();
  } else if constexpr (splits_work) {
    ptx::shrink_registers<72>();
    HeadWarpgroup<Config, sums_tokens>(shape, shared, tensors).run_queries();
  }
}

// Writes all of d_q, d_k and d_v (cuda/attention/geometry.h has the launch). out, d_out: [B,T,H*D] seen as
// heads; lse [B,H,T] from the forward pass.
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
