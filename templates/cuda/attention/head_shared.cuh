// Memory that the warps of a block of attention_head_gradients share: a whole head of one sequence, and some
// of the next.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/barrier.cuh"

namespace hydrac::cuda {

// Places in shared memory, as addresses. The k, v, q and d_out of 64 tokens are four tiles, rows of 128
// bytes, swizzled, in one of kSlots slots. All warps number the tokens' tiles in the order in which they are
// loaded; which slot they have follows from that. `count` is how many heads the block has had.
template <class Config>
struct HeadShared {
  static constexpr int kTiles = Config::stages;
  static constexpr int kSlots = kTiles + 1;
  static constexpr int kTileRows = Config::columns;
  static constexpr int kTileBytes = kTileRows * Config::row_bytes;
  static constexpr int kTensors = 4;  // k, v, q, d_out
  static constexpr bool kShares = Config::causal && kTiles == 4;

  // Bytes of shared memory: all of these.
  static HYDRAC_FN constexpr int bytes() {
    return kSlots * (kTensors * kTileBytes + kTermBytes) + kScoreTiles * kTileBytes +
           (3 * kSlots + 2 * kTiles) * barrier::kBytes;
  }

  std::uint32_t base;

  // The number of a tile of a head. The last one comes first, because it sees all others, and sees to it that
  // the next head's find room; of four, those in the middle are needed later than the first.
  static __device__ __forceinline__ int number(int count, int tile) {
    const int turn = kTiles == 1 ? 0 : tile < 2 ? kTiles - 2 + tile : kTiles - 1 - tile;
    return count * kTiles + turn;
  }
  // The tile whose turn it is in a head.
  static __device__ __forceinline__ int in_turn(int turn) {
    return kTiles == 1 ? 0 : turn < kTiles - 2 ? kTiles - 1 - turn : turn - (kTiles - 2);
  }

  __device__ __forceinline__ std::uint32_t tile(int number, int tensor) const {
    return base + (number % kSlots * kTensors + tensor) * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t keys(int number) const { return tile(number, 0); }
  __device__ __forceinline__ std::uint32_t values(int number) const { return tile(number, 1); }
  __device__ __forceinline__ std::uint32_t queries(int number) const { return tile(number, 2); }
  __device__ __forceinline__ std::uint32_t d_outs(int number) const { return tile(number, 3); }
  // d_s [queries, keys] of a tile of queries and one of keys that they see. Of four causal tiles the first
  // ones take the places of two of the last queries', which are multiplied long before.
  __device__ __forceinline__ std::uint32_t d_scores(int query_tile, int key_tile) const {
    int place =
        Config::causal ? query_tile * (query_tile + 1) / 2 + key_tile : query_tile * kTiles + key_tile;
    if constexpr (kShares) {
      const bool is_first = query_tile < 2 && query_tile == key_tile;
      place = is_first ? 4 + query_tile : place - (query_tile < 2 ? 1 : 2);
    }
    return base + kSlots * kTensors * kTileBytes + place * kTileBytes;
  }
  // lse2 of a tile's queries, then delta.
  __device__ __forceinline__ std::uint32_t terms(int number) const {
    return base + kSlots * kTensors * kTileBytes + kScoreTiles * kTileBytes + number % kSlots * kTermBytes;
  }
  // Barriers: tiles have arrived; their queries' terms too; they may be overwritten.
  __device__ __forceinline__ std::uint32_t full(int number) const { return barrier_at(number % kSlots); }
  __device__ __forceinline__ std::uint32_t has_terms(int number) const {
    return barrier_at(kSlots + number % kSlots);
  }
  __device__ __forceinline__ std::uint32_t empty(int number) const {
    return barrier_at(2 * kSlots + number % kSlots);
  }
  static __device__ __forceinline__ int phase(int number) { return number / kSlots; }
  // All d_s of a tile of queries are there; they are multiplied.
  __device__ __forceinline__ std::uint32_t has_d_scores(int query_tile) const {
    return barrier_at(3 * kSlots + query_tile);
  }
  __device__ __forceinline__ std::uint32_t multiplied(int query_tile) const {
    return barrier_at(3 * kSlots + kTiles + query_tile);
  }
  // Returns when nobody needs what has been in the place of a tile of d_s.
  __device__ __forceinline__ void wait_for_room(int query_tile, int key_tile, int count) const {
    barrier::wait(multiplied(query_tile), count - 1);
    if constexpr (kShares) {
      const bool is_shared = key_tile < 2;
      if (is_shared && query_tile == key_tile) barrier::wait(multiplied(kTiles - 1), count);
      if (is_shared && query_tile == kTiles - 1) barrier::wait(multiplied(key_tile), count - 1);
    }
  }

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kSlots; ++i) {
      barrier::init(full(i), 4);
      barrier::init(has_terms(i), 4);
      barrier::init(empty(i), Config::warps + (kTiles > 1 ? 4 : 0));
    }
    if constexpr (kTiles > 1) {  // else one warpgroup makes d_s and multiplies it
      for (int i = 0; i < kTiles; ++i) {
        barrier::init(has_d_scores(i), (Config::causal ? i + 1 : kTiles) * 4);
        barrier::init(multiplied(i), 4);
      }
    }
  }

 private:
  static constexpr int kScoreTiles = head_score_tiles(kTiles, Config::causal);
  static constexpr int kTermBytes = kTileRows * static_cast<int>(sizeof(QueryTerms));

  __device__ __forceinline__ std::uint32_t barrier_at(int index) const {
    return terms(0) + kSlots * kTermBytes + index * barrier::kBytes;
  }
};

}  // namespace hydrac::cuda
