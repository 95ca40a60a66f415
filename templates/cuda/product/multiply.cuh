// The warpgroups of a product's block that multiply.
#pragma once
#include "cuda/product/operands.cuh"
#include "cuda/product/shared.cuh"
#include "cuda/product/tiles.cuh"
#include "cuda/product/wgmma.cuh"

namespace hydrac::cuda {

// The sums of 64 rows of a tile: in a warp's fragment n, element e is in row lane / 4 + e / 2 * 8 of the
// warp's 16, column n * 8 + lane % 4 * 2 + e % 2.
template <class Config>
class ProductSums {
 public:
  // Adds a stage's products to the sums; `first` begins them anew. They run on their own.
  __device__ __forceinline__ void begin(std::uint32_t a, std::uint32_t b, bool first) {
    // Where its columns are contiguous, b lies in panels of 64 of them.
    constexpr int kPanelBytes = Config::b_transposed ? 0 : Config::tile.depth * 128;
    constexpr int kStep = Config::b_transposed ? 32 : 16 * 128;  // to the next 16 of k
    constexpr int kPartBytes =
        Config::b_transposed ? kWide * Config::tile.depth * 2 : kWide * Config::tile.depth * 2;
    constexpr bool narrow = Config::tile.depth == 32;
    a &= 0x3FFFF, b &= 0x3FFFF;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < Config::tile.depth / 16; ++k) {
#pragma unroll
      for (int part = 0; part < kColumns / kWide; ++part)
        wgmma::multiply_tile<typename Config::Storage, kWide, Config::b_transposed>(
            at_ + part * kWide / 8, wgmma::descriptor2<narrow>(a, 0, k * 32),
            wgmma::descriptor2 < narrow &&
                Config::b_transposed > (b, kPanelBytes, k * kStep + part * kPartBytes),
            !first || k > 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }

  // Returns when all but the products of the last `pending` stages are done.
  template <int pending>
  __device__ __forceinline__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
    if constexpr (pending == 0) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(at_[n][e])::"memory");
      }
    }
  }

  // Rounds the sums and writes them to this half of the results.
  __device__ __forceinline__ void store(std::uint32_t half, int warp, int lane) const {
    const std::uint32_t row = half + (warp * 16 + lane % 16) * Config::result_row_bytes;
    const int permutation = lane / 16 ^ lane % 8;
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      const std::uint32_t to = row + n / 8 * 128 + (n % 8 ^ permutation) * 16;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                   "r"(packed(n, 0)), "r"(packed(n, 2)), "r"(packed(n + 1, 0)), "r"(packed(n + 1, 2))
                   : "memory");
    }
  }

 private:
  static constexpr int kColumns = Config::tile.columns;
  static constexpr int kWide = Config::tile.wide;

  __device__ __forceinline__ std::uint32_t packed(int n, int e) const {
    return ptx::pack<typename Config::Storage>(at_[n][e], at_[n][e + 1]);
  }

  float at_[kColumns / 8][4];
};

// By one warpgroup: its half of each of the block's tiles.
template <class Config>
__device__ __forceinline__ void multiply_tiles(const ProductShared<Config>& shared,
                                               const ProductTiles<Config>& tiles) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, half = threadIdx.x / 128;
  const auto release = [&](int stage) {  // in each block that brings a part of it
    if constexpr (Config::tile.cluster == 1) {
      if (threadIdx.x % 128 == 0) barrier_arrive(shared.empty(stage));
    } else {
      if (threadIdx.x % 128 < Config::tile.cluster) barrier_arrive_at(shared.empty(stage), threadIdx.x % 128);
    }
  };
  ProductStage<Config> stage;
  ProductSums<Config> sums;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
    int before = 0;
#pragma unroll 1
    for (int k = 0; k < Config::depth_tiles; ++k) {
      barrier_wait(shared.full(stage.index), stage.parity);
      sums.begin(shared.a(stage.index) + half * (Config::a_bytes / 2), shared.b(stage.index), k == 0);
      if (k > 0) {
        sums.template wait<1>();
        release(before);
      }
      before = stage.index;
      stage.advance();
    }
    sums.template wait<0>();
    release(before);
    barrier_wait(shared.results_empty(half), parity ^ 1);
    parity ^= 1;
    sums.store(shared.results() + half * Config::half_result_bytes, warp, lane);
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.results_full(half));
  }
}

}  // namespace hydrac::cuda
