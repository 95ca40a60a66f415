// The persistent tile scheduler: blocks stay and take tile after tile, a fixed share each.
#pragma once
#include "cuda/matmul/config.cuh"

namespace hydrac::cuda {

// A tile's first row, and its first column of the epilogue's.
struct MatmulPlace {
  int row, column;
  int b_row = 0;  // where the matrix of the tile's expert begins in the map of b
};

// The expert that has row `row`: the last one whose rows begin there or before.
template <int experts>
__device__ __forceinline__ int expert_at(const int* offsets, int row) {
  int expert = 0, end = experts;
#pragma unroll 1
  while (end - expert > 1) {
    const int middle = (expert + end) / 2;
    (offsets[middle] <= row ? expert : end) = middle;
  }
  return expert;
}

// The tiles of one block are first(), first() + step(), ... below count(). The blocks of a cluster take
// neighbours. Tiles that are computed at the same time cover about as many rows as columns, so that they
// share operands in the L2 cache.
template <class Config>
class TileScheduler {
 public:
  __device__ __forceinline__ TileScheduler(std::int64_t rows, int rank)
      : height_(static_cast<int>((rows + kRows - 1) / kRows)),
        down_(rank / Config::a_sharers),
        across_(rank % Config::a_sharers) {}

  __device__ __forceinline__ int first() const { return static_cast<int>(blockIdx.x) / kCluster; }
  __device__ __forceinline__ int step() const { return static_cast<int>(gridDim.x) / kCluster; }
  __device__ __forceinline__ int count() const { return height_ * kWidth; }

  __device__ __forceinline__ MatmulPlace place(int tile) const {
    const int top = tile / (kBand * kWidth) * kBand;
    const int within = tile - top * kWidth;
    const int height = top + kBand < height_ ? kBand : height_ - top;
    return {(top + within % height) * kRows + down_ * Config::tile.rows,
            (within / height * Config::a_sharers + across_) * Config::tile_columns};
  }

 private:
  static constexpr int kCluster = Config::tile.cluster;
  static constexpr int kRows = Config::tile.rows * Config::b_sharers;      // of a cluster
  static constexpr int kWidth = Config::column_tiles / Config::a_sharers;  // in clusters
  static constexpr int kBand = 8;  // clusters one below the other before the next column

  int height_;         // in clusters
  int down_, across_;  // the block in its cluster
};

}  // namespace hydrac::cuda
