// What the warps of a block of attention_gradients share.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/barrier.cuh"

namespace hydrac::cuda {

// Places in shared memory, as addresses. Every warp counts the tiles and the pieces of work that it has seen;
// which of several places one has follows from its count. Tiles lie in rows of 128 bytes, swizzled.
template <class Config>
struct GradientShared {
  static constexpr int kStages = Config::stages;
  static constexpr int kTileBytes = Config::columns * Config::row_bytes;
  static constexpr int kBlockBytes = Config::rows * Config::row_bytes;
  static constexpr int kDScoreBytes = Config::columns * Config::rows * 2;
  static constexpr int kSumBytes = Config::columns * Config::head_dim * 4;
  static constexpr int kTermBytes = Config::columns * static_cast<int>(sizeof(QueryTerms));

  std::uint32_t base;

  // Keys and values of a piece.
  __device__ __forceinline__ std::uint32_t keys(unsigned piece) const {
    return base + piece % 2 * kBlockBytes;
  }
  __device__ __forceinline__ std::uint32_t values(unsigned piece) const {
    return keys(piece) + 2 * kBlockBytes;
  }
  // Of a tile: q, d_out, d_s [queries, keys] in panels of 64 keys, the sum of d_q, lse2 and then delta.
  __device__ __forceinline__ std::uint32_t queries(unsigned count) const {
    return base + kQueries + count % kStages * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t d_outs(unsigned count) const {
    return queries(count) + kStages * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t d_scores(unsigned count) const {
    return base + kDScores + count % 4 * kDScoreBytes;
  }
  __device__ __forceinline__ std::uint32_t sum(unsigned count) const {
    return base + kSums + count % 2 * kSumBytes;
  }
  __device__ __forceinline__ std::uint32_t terms(unsigned count) const {
    return base + kTerms + count % kStages * kTermBytes;
  }
  // Barriers: a tile has arrived, and may be overwritten; so has a piece's keys and values; it is this
  // block's turn to add to d_q, it has added, the next one may.
  __device__ __forceinline__ std::uint32_t tile_full(unsigned count) const {
    return barrier_at(count % kStages);
  }
  __device__ __forceinline__ std::uint32_t tile_empty(unsigned count) const {
    return barrier_at(kStages + count % kStages);
  }
  __device__ __forceinline__ std::uint32_t piece_full(unsigned piece) const {
    return barrier_at(2 * kStages + piece % 2);
  }
  __device__ __forceinline__ std::uint32_t piece_empty(unsigned piece) const {
    return barrier_at(2 * kStages + 2 + piece % 2);
  }
  __device__ __forceinline__ std::uint32_t has_turn(unsigned count) const {
    return barrier_at(2 * kStages + 4 + count % 4);
  }
  __device__ __forceinline__ std::uint32_t has_added(unsigned count) const {
    return barrier_at(2 * kStages + 8 + count % 4);
  }
  __device__ __forceinline__ std::uint32_t has_passed_on(unsigned count) const {
    return barrier_at(2 * kStages + 12 + count % 4);
  }
  // The number of a piece, -1 behind the last one; to be read once the piece is full.
  __device__ __forceinline__ std::uint32_t number(unsigned piece) const {
    return barrier_at(2 * kStages + 16) + piece % 2 * 4;
  }
  __device__ __forceinline__ int read_number(unsigned piece) const {
    return static_cast<int>(ptx::load_shared<1>(number(piece)).at[0]);
  }

  // With the arrivals that end a phase of each: of threads where they copy, else of a warp's first lane. A
  // barrier's phase is its count, or its piece, over the places that there are.
  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      barrier::init(tile_full(i), 64);  // two warps load
      barrier::init(tile_empty(i), Config::warps);
    }
    for (int i = 0; i < 2; ++i) {
      barrier::init(piece_full(i), 64 + 1);  // and the one that takes it
      barrier::init(piece_empty(i),
                    Config::warps + 2);  // who computes, and who waits for turns and passes them on
    }
    for (int i = 0; i < 4; ++i) {
      barrier::init(has_turn(i), 1);
      barrier::init(has_added(i), Config::warps);
      barrier::init(has_passed_on(i), 1);
    }
  }

 private:
  static constexpr int kQueries = 4 * kBlockBytes;
  static constexpr int kDScores = kQueries + 2 * kStages * kTileBytes;
  static constexpr int kSums = kDScores + 4 * kDScoreBytes;
  static constexpr int kTerms = kSums + 2 * kSumBytes;
  static constexpr int kBarriers = kTerms + kStages * kTermBytes;

  __device__ __forceinline__ std::uint32_t barrier_at(int index) const {
    return base + kBarriers + index * barrier::kBytes;
  }
};

}  // namespace hydrac::cuda
