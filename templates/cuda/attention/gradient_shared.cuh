// Memory that the warps of a block of attention_gradients share.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/barrier.cuh"

namespace hydrac {

// Places in shared memory, as addresses. Every warp counts the tiles and the pieces of work that it has seen;
// which of several places one has follows from its count. Tiles lie in rows of 128 bytes, swizzled.
// A piece of work has `rows` keys, a tile `columns` queries, of which there are `stages`; `warps` compute.
template <int rows, int columns, int head_dim, int stages, int warps>
struct GradientShared {
  static constexpr int kRowBytes = head_dim * 2;
  static constexpr int kTileBytes = columns * kRowBytes;
  static constexpr int kBlockBytes = rows * kRowBytes;
  static constexpr int kDScoreBytes = columns * rows * 2;
  static constexpr int kSumBytes = columns * head_dim * 4;
  static constexpr int kTermBytes = columns * static_cast<int>(sizeof(QueryTerms));

  // Bytes of shared memory: all of these, and behind the barriers the numbers of two pieces.
  static HYDRAC_FN constexpr int bytes() { return kBarriers + (2 * stages + 16 + 1) * barrier::kBytes; }

  std::uint32_t base;

  // Keys and values of a piece.
  __device__ __forceinline__ std::uint32_t keys(unsigned piece) const {
    return base + piece % 2 * kBlockBytes;
  }
  __device__ __forceinline__ std::uint32_t values(unsigned piece) const {
    return keys(piece) + 2 * kBlockBytes;
  }
  // Parts of a tile: q, d_out, d_s [queries, keys] in panels of 64 keys, the sum of d_q, lse2 and then delta.
  __device__ __forceinline__ std::uint32_t queries(unsigned count) const {
    return base + kQueries + count % stages * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t d_outs(unsigned count) const {
    return queries(count) + stages * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t d_scores(unsigned count) const {
    return base + kDScores + count % 4 * kDScoreBytes;
  }
  __device__ __forceinline__ std::uint32_t sum(unsigned count) const {
    return base + kSums + count % 2 * kSumBytes;
  }
  __device__ __forceinline__ std::uint32_t terms(unsigned count) const {
    return base + kTerms + count % stages * kTermBytes;
  }
  // Barriers: a tile has arrived, and may be overwritten; so has a piece's keys and values; it is this
  // block's turn to add to d_q, it has added, the next one may.
  __device__ __forceinline__ std::uint32_t tile_full(unsigned count) const {
    return barrier_at(count % stages);
  }
  __device__ __forceinline__ std::uint32_t tile_empty(unsigned count) const {
    return barrier_at(stages + count % stages);
  }
  __device__ __forceinline__ std::uint32_t piece_full(unsigned piece) const {
    return barrier_at(2 * stages + piece % 2);
  }
  __device__ __forceinline__ std::uint32_t piece_empty(unsigned piece) const {
    return barrier_at(2 * stages + 2 + piece % 2);
  }
  __device__ __forceinline__ std::uint32_t has_turn(unsigned count) const {
    return barrier_at(2 * stages + 4 + count % 4);
  }
  __device__ __forceinline__ std::uint32_t has_added(unsigned count) const {
    return barrier_at(2 * stages + 8 + count % 4);
  }
  __device__ __forceinline__ std::uint32_t has_passed_on(unsigned count) const {
    return barrier_at(2 * stages + 12 + count % 4);
  }
  // The number of a piece, -1 behind the last one; to be read once the piece is full.
  __device__ __forceinline__ std::uint32_t number(unsigned piece) const {
    return barrier_at(2 * stages + 16) + piece % 2 * 4;
  }
  __device__ __forceinline__ int read_number(unsigned piece) const {
    return static_cast<int>(ptx::load_shared<1>(number(piece)).at[0]);
  }

  // With the arrivals that end a phase of each: of threads where they copy, else of a warp's first lane. A
  // barrier's phase is its count, or its piece, over the places that there are.
  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < stages; ++i) {
      barrier::init(tile_full(i), 64);  // two warps load
      barrier::init(tile_empty(i), warps);
    }
    for (int i = 0; i < 2; ++i) {
      barrier::init(piece_full(i), 64 + 1);  // and the one that takes it
      barrier::init(piece_empty(i),
                    warps + 2);  // who computes, and who waits for turns and passes them on
    }
    for (int i = 0; i < 4; ++i) {
      barrier::init(has_turn(i), 1);
      barrier::init(has_added(i), warps);
      barrier::init(has_passed_on(i), 1);
    }
  }

 private:
  static constexpr int kQueries = 4 * kBlockBytes;
  static constexpr int kDScores = kQueries + 2 * stages * kTileBytes;
  static constexpr int kSums = kDScores + 4 * kDScoreBytes;
  static constexpr int kTerms = kSums + 2 * kSumBytes;
  static constexpr int kBarriers = kTerms + stages * kTermBytes;

  __device__ __forceinline__ std::uint32_t barrier_at(int index) const {
    return base + kBarriers + index * barrier::kBytes;
  }
};

}  // namespace hydrac
