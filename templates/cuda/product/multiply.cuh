// A warpgroup's products of one tile. The tensor cores compute it transposed: the columns of b are the rows
// of their instructions, the rows of a their columns, so that a tile can have 192 rows.
#pragma once
#include "cuda/product/shared.cuh"
#include "cuda/ptx.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// Of columns half * 64 + warp * 16 .. + 15 of the tile: element e of fragment n of a half is in column
// lane / 4 + e / 2 * 8 of those, row n * 8 + lane % 4 * 2 + e % 2 of the tile.
template <class Config>
class ProductSums {
 public:
  // Starts the products of all of k, from the stages that follow, and tells the blocks that filled them when
  // they are read. Returns when the last ones have begun.
  __device__ __forceinline__ void start(const ProductShared<Config>& shared, ProductStage<Config>& stage) {
    barrier::wait_patiently(shared.full(stage.index), stage.parity);
    begin<true>(shared.a(stage.index), shared.b(stage.index));
    last_ = stage.index;
    stage.advance();
#pragma unroll 1
    for (int k = 1; k < Config::depth_tiles; ++k) {
      barrier::wait_patiently(shared.full(stage.index), stage.parity);
      begin<false>(shared.a(stage.index), shared.b(stage.index));
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      release(shared.empty(last_));
      last_ = stage.index;
      stage.advance();
    }
  }

  // Returns when the sums are complete.
  __device__ __forceinline__ void finish(const ProductShared<Config>& shared) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(shared.empty(last_));
    settle();
  }

  // Rounds the sums of one half of the tile's rows and writes them to the results.
  template <int part>
  __device__ __forceinline__ void store(std::uint32_t results, int warp, int lane) const {
    constexpr int first = part * (kFragments / 2);
    const std::uint32_t to = results + (lane / 16 * 8 + lane % 8) * Config::result_row_bytes +
                             ((warp * 2 + lane / 8 % 2) ^ lane % 8) * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < kFragments / 2; n += 2) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         to + half * 128 + n * 8 * Config::result_row_bytes),
                     "r"(packed(half, first + n, 0)), "r"(packed(half, first + n, 2)),
                     "r"(packed(half, first + n + 1, 0)), "r"(packed(half, first + n + 1, 2))
                     : "memory");
      }
    }
  }

 private:
  static constexpr int kRows = Config::tile.rows;
  static constexpr int kFragments = kRows / 8;

  // Starts the products of one stage. That the first ones overwrite the sums must be constant, or the
  // compiler would keep the sums of the tile before through its epilogue.
  template <bool first>
  __device__ __forceinline__ void begin(std::uint32_t a, std::uint32_t b) {
    constexpr int kStep = Config::b_transposed ? 32 : 16 * 128;  // of b, to the next 16 of k
    // In a cluster an address says which block it is of; a descriptor's has no room for that.
    a &= 0x3FFFF, b &= 0x3FFFF;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < ProductTile::depth / 16; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        wgmma::multiply_shared<typename Config::Storage, kRows, !Config::b_transposed, false>(
            at_[half], wgmma::descriptor(b, 0, half * Config::half_b_bytes + k * kStep),
            wgmma::descriptor(a, 0, k * 32), !first || k > 0);
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }

  __device__ __forceinline__ void release(std::uint32_t empty) const {
    if (threadIdx.x % 128 < ProductTile::cluster) barrier::arrive_at(empty, threadIdx.x % 128);
  }

  // Stands before sums are read: the compiler does not know when they are written.
  __device__ __forceinline__ void settle() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(at_[half][n][e])::"memory");
      }
    }
  }

  __device__ __forceinline__ std::uint32_t packed(int half, int n, int e) const {
    return ptx::pack<typename Config::Storage>(at_[half][n][e], at_[half][n][e + 1]);
  }

  int last_ = 0;  // the latest stage begun
  float at_[2][kFragments][4];
};

}  // namespace hydrac::cuda
