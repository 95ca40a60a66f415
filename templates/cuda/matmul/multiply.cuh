// A warpgroup's matmuls of one tile. The tensor cores compute it transposed: the columns of b are the rows
// of their instructions, the rows of a their columns, so that a tile can have 192 rows.
#pragma once
#include "cuda/matmul/shared.cuh"
#include "cuda/ptx.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// Of columns half * 64 + warp * 16 .. + 15 of the tile: element e of fragment n of a half is in column
// lane / 4 + e / 2 * 8 of those, row n * 8 + lane % 4 * 2 + e % 2 of the tile.
template <class Config>
class MatmulSums {
 public:
  // Starts the matmuls of all of k, from the stages that follow, and tells the blocks that filled them when
  // they are read. Returns when the last ones have begun.
  __device__ __forceinline__ void start(const MatmulShared<Config>& shared, MatmulStage<Config>& stage) {
    barrier::wait_patiently(shared.full(stage.index), stage.parity);
    begin<true>(shared.a(stage.index), shared.b(stage.index));
    last_ = stage.index;
    stage.advance();
#pragma unroll 1
    for (int k = 1; k < Config::depth_tiles; ++k) {
      barrier::wait_patiently(shared.full(stage.index), stage.parity);
      begin<false>(shared.a(stage.index), shared.b(stage.index));
      wgmma::wait<1>();
      release(shared.empty(last_));
      last_ = stage.index;
      stage.advance();
    }
  }

  // Returns when the sums are complete.
  __device__ __forceinline__ void finish(const MatmulShared<Config>& shared) {
    wgmma::wait<0>();
    release(shared.empty(last_));
    wgmma::fence_operands(at_[0]);
    wgmma::fence_operands(at_[1]);
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
        ptx::stmatrix_transposed(to + half * 128 + n * 8 * Config::result_row_bytes,
                                 {packed(half, first + n, 0), packed(half, first + n, 2),
                                  packed(half, first + n + 1, 0), packed(half, first + n + 1, 2)});
      }
    }
  }

 private:
  static constexpr int kRows = Config::tile.rows;
  static constexpr int kFragments = kRows / 8;

  // Starts the matmuls of one stage. That the first ones overwrite the sums must be constant, or the
  // compiler would keep the sums of the tile before through its epilogue.
  template <bool first>
  __device__ __forceinline__ void begin(std::uint32_t a, std::uint32_t b) {
    constexpr int kStep = Config::b_transposed ? 32 : 16 * 128;  // of b, to the next 16 of k
    // In a cluster an address says which block it is of; a descriptor's has no room for that.
    a &= 0x3FFFF, b &= 0x3FFFF;
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < MatmulTile::depth / 16; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        wgmma::multiply_shared<typename Config::Storage, kRows, !Config::b_transposed, false>(
            at_[half], wgmma::descriptor(b, 0, half * Config::half_b_bytes + k * kStep),
            wgmma::descriptor(a, 0, k * 32), !first || k > 0);
      }
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void release(std::uint32_t empty) const {
    if (threadIdx.x % 128 < MatmulTile::cluster) barrier::arrive_at(empty, threadIdx.x % 128);
  }

  __device__ __forceinline__ std::uint32_t packed(int half, int n, int e) const {
    return ptx::pack<typename Config::Storage>(at_[half][n][e], at_[half][n][e + 1]);
  }

  int last_ = 0;  // the latest stage begun
  float at_[2][kFragments][4];
};

}  // namespace hydrac::cuda
