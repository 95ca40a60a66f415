// A warpgroup's matmuls: the panel of a small matmul's or a row matmul's tile that is its own. The tensor
// cores compute them transposed: the columns of b are the rows of their instructions, the rows of a their
// columns.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/small_matmul/shared.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// Element e of fragment n is in column warp * 16 + lane / 4 + e / 2 * 8 of the panel, row
// n * 8 + lane % 4 * 2 + e % 2 of the tile.
template <class Config>
class SmallMatmulSums {
 public:
  // Adds up all of k.
  __device__ __forceinline__ void compute(const SmallMatmulShared<Config>& shared, int panel) {
    int stage = 0;
    std::uint32_t parity = 0;
    [[maybe_unused]] int last = 0;
#pragma unroll 1
    for (int k = 0; k < Config::depth_tiles; ++k) {
      barrier::wait_patiently(shared.full(stage), parity);
      multiply(shared, panel, stage, k > 0);
      if constexpr (Config::is_ring) {
        wgmma::wait<1>();
        // Nobody waits for the last readers of a stage.
        if (k > 0 && k - 1 + Config::tile.stages < Config::depth_tiles) release(shared.empty(last));
        last = stage;
      }
      if (++stage == Config::tile.stages) stage = 0, parity ^= 1;
    }
    wgmma::wait<0>();
    wgmma::fence_operands(at_);
  }

  // Rounds the sums and writes them to the panel's results.
  __device__ __forceinline__ void store(const SmallMatmulShared<Config>& shared, int panel) const {
    constexpr int row_bytes = SmallMatmulShared<Config>::result_row_bytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const std::uint32_t to = shared.results(panel) + (lane / 16 * 8 + lane % 8) * row_bytes +
                             ((warp * 2 + lane / 8 % 2) ^ lane % 8) * 16;
#pragma unroll
    for (int n = 0; n < kFragments; n += 2) {
      ptx::stmatrix_transposed(to + n * 8 * row_bytes,
                               {packed(n, 0), packed(n, 2), packed(n + 1, 0), packed(n + 1, 2)});
    }
  }

 private:
  static constexpr int kRows = Config::tile.rows;
  static constexpr int kFragments = kRows / 8;

  // Starts the matmuls of one stage.
  __device__ __forceinline__ void multiply(const SmallMatmulShared<Config>& shared, int panel, int stage,
                                           bool add) {
    constexpr int kStep = Config::b_transposed ? 32 : 16 * 128;  // of b, to the next 16 of k
    std::uint32_t a = shared.a(stage), b = shared.b(panel, stage);
    // In a cluster an address says which block it is of; a descriptor's has no room for that.
    a &= 0x3FFFF, b &= 0x3FFFF;
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < Config::tile.depth / 16; ++k) {
      wgmma::multiply_shared<typename Config::Storage, kRows, !Config::b_transposed, false>(
          at_, wgmma::descriptor(b, 0, k * kStep), wgmma::descriptor(a, 0, k * 32), add || k > 0);
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void release(std::uint32_t empty) const {
    if (threadIdx.x % 128 == 0) barrier::arrive(empty);
  }

  __device__ __forceinline__ std::uint32_t packed(int n, int e) const {
    return ptx::pack<typename Config::Storage>(at_[n][e], at_[n][e + 1]);
  }

  float at_[kFragments][4];
};

}  // namespace hydrac::cuda
