// The warp of a product's block that starts the copies of operands to shared memory.
#pragma once
#include "cuda/product/shared.cuh"
#include "cuda/product/tiles.cuh"

namespace hydrac::cuda {

// Part `part` of the tile's columns of b: a share of a cluster's block, which goes to all of them.
template <class Config>
__device__ __forceinline__ void copy_part_of_b(const ProductShared<Config>& shared, const TensorMap& b,
                                               int stage, int part, int column, int depth) {
  constexpr int kPanels = Config::b_transposed ? 1 : Config::part_columns / 64;
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    const int within = part * Config::part_columns + panel * 64;
    const int first = column + (Config::paired ? within / Config::half_columns * (Config::n / 2) +
                                                     within % Config::half_columns
                                               : within);
    const int x = Config::b_transposed ? depth : first, y = Config::b_transposed ? first : depth;
    const std::uint32_t to = shared.b(stage) + within * Config::tile.depth * 2;
    if constexpr (Config::tile.cluster == 1) {
      copy_box(to, b, x, y, shared.full(stage));
    } else {
      copy_box_to((1 << Config::tile.cluster) - 1, to, b, x, y, shared.full(stage));
    }
  }
}

// The copies of all tiles of the block, in order. In a cluster each block brings its rows of a and half of
// the columns of b, which the blocks have in common. One thread has it.
template <class Config>
class ProductCopies {
 public:
  __device__ __forceinline__ ProductCopies(const ProductShared<Config>& shared,
                                           const ProductTiles<Config>& tiles, const TensorMap& a,
                                           const TensorMap& b, int rank)
      : shared_(shared), tiles_(tiles), a_(a), b_(b), rank_(rank), tile_(tiles.first()) {
    place_ = tiles.place(tile_);
  }

  __device__ __forceinline__ bool left() const { return tile_ < tiles_.count(); }

  __device__ __forceinline__ void poll() {
    while (left() && barrier_test(shared_.empty(stage_.index), stage_.parity ^ 1)) start();
  }
  // Starts a stage's copies when the stage is empty.
  __device__ __forceinline__ void start_next() {
    barrier_wait(shared_.empty(stage_.index), stage_.parity ^ 1);
    start();
  }
  __device__ __forceinline__ void start() {
    const int depth = k_ * Config::tile.depth, stage = stage_.index;
    const std::uint32_t full = shared_.full(stage);
    barrier_expect(full, Config::stage_bytes);
    copy_box(shared_.a(stage), a_, depth, place_.row, full);
    if constexpr (Config::tile.cluster == 1) {
      copy_part_of_b(shared_, b_, stage, 0, place_.column, depth);
      copy_part_of_b(shared_, b_, stage, 1, place_.column, depth);
    } else {
      copy_part_of_b(shared_, b_, stage, rank_, place_.column, depth);
    }
    stage_.advance();
    if (++k_ == Config::depth_tiles) {
      k_ = 0;
      tile_ += tiles_.step();
      place_ = tiles_.place(tile_);
    }
  }

 private:
  const ProductShared<Config>& shared_;
  const ProductTiles<Config>& tiles_;
  const TensorMap &a_, &b_;
  int rank_, tile_, k_ = 0;
  ProductPlace place_;
  ProductStage<Config> stage_;
};

}  // namespace hydrac::cuda
