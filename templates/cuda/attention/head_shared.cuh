// What the warps of a block of attention_head_gradients share: a whole head of one sequence.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/barrier.cuh"

namespace hydrac::cuda {

// Places in shared memory, as addresses. A tile is 64 tokens, rows of 128 bytes, swizzled.
template <class Config>
struct HeadShared {
  static constexpr int kTiles = Config::stages;
  static constexpr int kTileRows = Config::columns;
  static constexpr int kTileBytes = kTileRows * Config::row_bytes;
  static constexpr int kTensors = 4;  // k, v, q, d_out

  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t tile(int tensor, int index) const {
    return base + (tensor * kTiles + index) * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t keys(int index) const { return tile(0, index); }
  __device__ __forceinline__ std::uint32_t values(int index) const { return tile(1, index); }
  __device__ __forceinline__ std::uint32_t queries(int index) const { return tile(2, index); }
  __device__ __forceinline__ std::uint32_t d_outs(int index) const { return tile(3, index); }
  // d_s [queries, keys] of a tile of queries and one of keys that they see.
  __device__ __forceinline__ std::uint32_t d_scores(int query_tile, int key_tile) const {
    const int before = Config::causal ? query_tile * (query_tile + 1) / 2 : query_tile * kTiles;
    return tile(kTensors, before + key_tile);
  }
  // lse2 of a tile's queries, then delta.
  __device__ __forceinline__ std::uint32_t terms(int query_tile) const {
    return tile(kTensors, kScoreTiles) + query_tile * kTermBytes;
  }
  // Barriers: a tile of a tensor has arrived; a tensor's tiles may be overwritten.
  __device__ __forceinline__ std::uint32_t full(int tensor, int index) const {
    return barrier_at(tensor * kTiles + index);
  }
  __device__ __forceinline__ std::uint32_t empty(int tensor) const {
    return barrier_at(kTensors * kTiles + tensor);
  }

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kTensors * kTiles; ++i) barrier::init(barrier_at(i), 32);  // a warp loads
    for (int i = 0; i < kTensors; ++i) barrier::init(empty(i), Config::warps);
  }

 private:
  static constexpr int kScoreTiles = head_score_tiles(kTiles, Config::causal);
  static constexpr int kTermBytes = kTileRows * static_cast<int>(sizeof(QueryTerms));

  __device__ __forceinline__ std::uint32_t barrier_at(int index) const {
    return terms(kTiles) + index * barrier::kBytes;
  }
};

}  // namespace hydrac::cuda
