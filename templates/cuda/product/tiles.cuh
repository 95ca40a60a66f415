// The order of a product's tiles. Blocks stay and take tile after tile, a fixed share each.
#pragma once
#include "cuda/product/config.cuh"

namespace hydrac::cuda {

// A tile's first row, and its first column of the epilogue's.
struct ProductPlace {
  int row, column;
};

// The tiles of one block are first(), first() + step(), ... below count(). The blocks of a cluster take tiles
// that lie side by side. Tiles that are computed at the same time cover about as many rows as columns, so
// that they share operands in the L2 cache.
template <class Config>
class ProductTiles {
 public:
  __device__ __forceinline__ ProductTiles(std::int64_t rows, int rank)
      : height_(static_cast<int>((rows + Config::tile.rows - 1) / Config::tile.rows)), rank_(rank) {}

  __device__ __forceinline__ int first() const { return static_cast<int>(blockIdx.x) / kCluster; }
  __device__ __forceinline__ int step() const { return static_cast<int>(gridDim.x) / kCluster; }
  __device__ __forceinline__ int count() const { return height_ * kWidth; }

  __device__ __forceinline__ ProductPlace place(int tile) const {
    const int top = tile / (kBand * kWidth) * kBand;
    const int within = tile - top * kWidth;
    const int height = top + kBand < height_ ? kBand : height_ - top;
    return {(top + within % height) * Config::tile.rows,
            (within / height * kCluster + rank_) * Config::tile_columns};
  }

 private:
  static constexpr int kCluster = Config::tile.cluster;
  static constexpr int kWidth = (Config::column_tiles + kCluster - 1) / kCluster;  // in clusters
  static constexpr int kBand = 8;  // tiles one below the other before the next column

  int height_;
  int rank_;
};

}  // namespace hydrac::cuda
