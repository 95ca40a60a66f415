// A warpgroup's matmuls of one tile. The tensor cores compute it transposed: the columns of b are the rows
// of their instructions, the rows of a their columns.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/stationary_matmul/shared.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// Of columns half * 64 + warp * 16 .. + 15 of the tile: element e of fragment n of a half is in column
// lane / 4 + e / 2 * 8 of those, row n * 8 + lane % 4 * 2 + e % 2 of the tile.
template <class Config>
class StationarySums {
 public:
  // Starts the matmuls of all of k, from the stages that follow, and tells who filled them when they are
  // read. Returns when the last ones have begun.
  __device__ __forceinline__ void start(const StationaryShared<Config>& shared,
                                        StationaryStage<Config> stage) {
    begin<true>(shared, stage, 0);
    last_ = stage.index;
    stage.advance();
#pragma unroll 1
    for (int k = 1; k < Config::tile.depth_tiles; ++k) {
      begin<false>(shared, stage, k);
      wgmma::wait<1>();
      release(shared);
      last_ = stage.index;
      stage.advance();
    }
  }

  // Returns when the sums are complete, and rounded, which leaves the epilogue half of their registers.
  __device__ __forceinline__ void finish(const StationaryShared<Config>& shared) {
    wgmma::wait<0>();
    release(shared);
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        float(&sum)[4] = at_[word / 2][n];
        const int e = word % 2 * 2;
        // The compiler does not know when sums are written, and would round them where that is asked for.
        asm volatile("" : "+f"(sum[e]), "+f"(sum[e + 1])::"memory");
        rounded_[n].at[word] = ptx::pack<typename Config::Storage>(sum[e], sum[e + 1]);
        asm volatile("" : "+r"(rounded_[n].at[word])::"memory");
      }
    }
  }

  // The second half of the tile's rows takes the place of the first one.
  __device__ __forceinline__ void move_up() {
#pragma unroll
    for (int n = 0; n < kFragments / 2; ++n) rounded_[n] = rounded_[n + kFragments / 2];
  }

  // Eight rows of the tile: of each column of the thread's, in the order of ElementColumns, the rows
  // fragment * 8 + lane % 4 * 2 and + 1.
  __device__ __forceinline__ Vector<typename Config::Storage, 8> rounded(int fragment) const {
    using Elements = Vector<typename Config::Storage, 8>;
    return __builtin_bit_cast(Elements, rounded_[fragment]);
  }

 private:
  static constexpr int kRows = StationaryTile::rows;
  static constexpr int kFragments = kRows / 8;

  // Starts the matmuls of one stage, when it has arrived. That the first ones overwrite the sums must be
  // constant, or the compiler would keep the sums of the tile before through its epilogue.
  template <bool first>
  __device__ __forceinline__ void begin(const StationaryShared<Config>& shared,
                                        const StationaryStage<Config>& stage, int depth) {
    constexpr int kStep = Config::b_transposed ? 32 : 16 * 128;  // of b, to the next 16 of k
    const std::uint32_t a = shared.a(stage.index), b = shared.b(depth);
    barrier::wait_patiently(shared.full(stage.index), stage.parity);
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < StationaryTile::depth / 16; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        wgmma::multiply_shared<typename Config::Storage, kRows, !Config::b_transposed, false>(
            at_[half], wgmma::descriptor(b, 0, half * shared.half_b_bytes + k * kStep),
            wgmma::descriptor(a, 0, k * 32), !first || k > 0);
      }
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void release(const StationaryShared<Config>& shared) const {
    if (threadIdx.x % 128 == 0) barrier::arrive(shared.empty(last_));
  }

  int last_ = 0;  // the latest stage begun
  float at_[2][kFragments][4];
  Vector<std::uint32_t, 4> rounded_[kFragments];
};

}  // namespace hydrac::cuda
