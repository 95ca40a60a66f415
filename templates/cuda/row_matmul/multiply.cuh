// A warpgroup's matmuls in a block that has whole rows: 64 of its rows.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/row_matmul/shared.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// One instruction has half of the columns: wide ones read shared memory less often. Element e of fragment f
// of a half is in row warp * 16 + lane / 4 + e / 2 * 8 of the 64, column f * 8 + lane % 4 * 2 + e % 2.
template <class Config>
class RowMatmulSums {
 public:
  // Adds up all of k. The copying threads wait for the last matmuls with each of the first `pool_stages`
  // stages, and for those with a stage that is filled again. Nobody waits for others, and a block that has
  // ended must not be told of them.
  __device__ __forceinline__ void compute(const RowMatmulShared<Config>& shared, int warpgroup,
                                          int pool_stages) {
    const auto release = [&](int k, int stage) {
      if (k + Config::tile.stages < Config::depth_tiles || stage < pool_stages) arrive(shared.empty(stage));
    };
    int stage = 0, last = 0;
    std::uint32_t parity = 0;
#pragma unroll 1
    for (int k = 0; k < Config::depth_tiles; ++k) {
      barrier::wait_patiently(shared.full(stage), parity);
      multiply(shared, warpgroup, stage, k > 0);
      wgmma::wait<1>();
      if (k > 0) release(k - 1, last);
      last = stage;
      if (++stage == Config::tile.stages) stage = 0, parity ^= 1;
    }
    wgmma::wait<0>();
    release(Config::depth_tiles - 1, last);
    wgmma::fence_operands(at_[0]);
    wgmma::fence_operands(at_[1]);
  }

  // Rounds the sums and writes them to the block's results, where nobody reads operands any longer.
  __device__ __forceinline__ void store(const RowMatmulShared<Config>& shared, int warpgroup) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = warpgroup * 64 + warp * 16 + lane % 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int f = 0; f < kFragments; f += 2) {
        ptx::stmatrix(
            shared.result(row, half * kColumns + (f + lane / 16) * 8),
            {packed(half, f, 0), packed(half, f, 2), packed(half, f + 1, 0), packed(half, f + 1, 2)});
      }
    }
  }

 private:
  static constexpr int kColumns = Config::n / 2;
  static constexpr int kFragments = kColumns / 8;

  // Starts the matmuls of one stage.
  __device__ __forceinline__ void multiply(const RowMatmulShared<Config>& shared, int warpgroup, int stage,
                                           bool add) {
    // In a cluster an address says which block it is of; a descriptor's has no room for that.
    const std::uint32_t a = (shared.a(stage) + warpgroup * (64 * 128)) & 0x3FFFF;
    const std::uint32_t b = shared.b(0, stage) & 0x3FFFF;
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < Config::tile.depth / 16; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint64_t left = wgmma::descriptor(a, 0, k * 32);
        const int offset = half * (kColumns * 128);
        if constexpr (Config::b_transposed) {
          wgmma::multiply<typename Config::Storage, kColumns>(
              at_[half], left, wgmma::descriptor(b, 0, offset + k * 32), add || k > 0);
        } else {
          constexpr int panel_bytes = RowMatmulShared<Config>::panel_bytes;
          wgmma::multiply_rows<typename Config::Storage, kColumns>(
              at_[half], left, wgmma::descriptor(b, panel_bytes, offset + k * 16 * 128), add || k > 0);
        }
      }
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void arrive(std::uint32_t empty) const {
    if (threadIdx.x % 128 < Config::tile.down) barrier::arrive_at(empty, threadIdx.x % 128);
  }

  __device__ __forceinline__ std::uint32_t packed(int half, int f, int e) const {
    return ptx::pack<typename Config::Storage>(at_[half][f][e], at_[half][f][e + 1]);
  }

  float at_[2][kFragments][4];
};

}  // namespace hydrac::cuda
