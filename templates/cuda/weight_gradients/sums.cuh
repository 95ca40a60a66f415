// A warpgroup's sums: 64 rows of a tile of a weight gradient.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/ptx.cuh"
#include "cuda/tensor_copy.cuh"
#include "cuda/weight_gradients/shared.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// Element e of fragment n is in row warp * 16 + lane / 4 + e / 2 * 8 of those, column
// n * 8 + lane % 4 * 2 + e % 2 of the tile. The block of part p finishes the fragments from p * kOwn on: it
// adds up what all parts have of them.
template <class Config>
class WeightGradientSums {
 public:
  // Adds up `steps` steps from the block's stages, and tells the threads that filled them when they are read.
  __device__ __forceinline__ void compute(const WeightGradientShared<Config>& shared, int warpgroup,
                                          int steps, const WeightGradientPlace<Config>& place) {
    WeightGradientStage<Config> stage;
    int last = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      barrier::wait_patiently(shared.full(stage.index), stage.parity);
      multiply(shared.d_y(stage.index) + warpgroup * WeightGradientTile::panel_bytes, shared.x(stage.index),
               step > 0);
      wgmma::wait<1>();
      if (step > 0) release(shared, last, place);
      last = stage.index;
      stage.advance();
    }
    wgmma::wait<0>();
    wgmma::fence_operands(at_);
  }

  // Gives the blocks that have the tile's other parts what they finish. All blocks have read their stages.
  __device__ __forceinline__ void send(const WeightGradientShared<Config>& shared, int warpgroup,
                                       const WeightGradientPlace<Config>& place) const {
#pragma unroll
    for (int other = 0; other < kParts; ++other) {
      if (other == place.part) continue;
      const std::uint32_t to = address_in(place_of(shared, warpgroup, place.part), place.rank_of_part(other));
#pragma unroll
      for (int n = 0; n < kOwn; ++n) store_to_cluster(to + n * (128 * 16), at_[other * kOwn + n]);
    }
  }

  // Adds what the others have sent, in their order, and writes what lies in the gradient; `row` is the
  // warpgroup's first. Returns the sum of the squares of what this thread has written.
  __device__ __forceinline__ float finish(const WeightGradientShared<Config>& shared, int warpgroup, int part,
                                          const WeightGradient& gradient, int row, int column) {
    float squares = 0.0f;
#pragma unroll
    for (int own = 0; own < kParts; ++own) {
      if (own != part) continue;
#pragma unroll
      for (int other = 0; other < kParts; ++other) {
        if (other == own) continue;
        const std::uint32_t from = place_of(shared, warpgroup, other);
#pragma unroll
        for (int n = 0; n < kOwn; ++n) {
          const auto sent = ptx::load_shared<4>(from + n * (128 * 16));
#pragma unroll
          for (int e = 0; e < 4; ++e) at_[own * kOwn + n][e] += float_from_bits(sent.at[e]);
        }
      }
      squares = write(gradient, row, column, own * kOwn);
    }
    return squares;
  }

  // The sum over the warpgroup, in thread 0 of it.
  static __device__ __forceinline__ float total(const WeightGradientShared<Config>& shared, int warpgroup,
                                                float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    const std::uint32_t sums = shared.sums(warpgroup);
    if (thread() % 32 == 0) ptx::store_shared(sums + thread() / 32 * 4, float_bits(x));
    barrier::block_sync<128>(1 + warpgroup);
    const auto warps = ptx::load_shared<4>(sums);
    return (float_from_bits(warps.at[0]) + float_from_bits(warps.at[1])) +
           (float_from_bits(warps.at[2]) + float_from_bits(warps.at[3]));
  }

 private:
  static constexpr int kFragments = Config::tile.columns / 8;
  static constexpr int kParts = Config::tile.parts;
  static constexpr int kOwn = kFragments / kParts;  // fragments that a block finishes
  static_assert(Config::tile.warpgroups * kParts * kOwn * 128 * 16 <=
                Config::tile.stages * Config::tile.stage_bytes());

  static __device__ __forceinline__ int thread() {
    return static_cast<int>(threadIdx.x) % 128;
  }

  // The warpgroup has read a stage, which the blocks that share operands with this one may fill.
  static __device__ __forceinline__ void release(const WeightGradientShared<Config>& shared, int stage,
                                                 const WeightGradientPlace<Config>& place) {
    constexpr int kShared = Config::tile.shared;
    if constexpr (kShared == 1) {
      if (thread() == 0) barrier::arrive(shared.empty(stage));
    } else if (thread() < WeightGradientShared<Config>::kPeers) {
      // Those side by side, this one among them, and then the others above each other.
      const int other = thread() - kShared;
      barrier::arrive_at(shared.empty(stage), other < 0
                                                  ? place.rank_across(thread())
                                                  : place.rank_down(other < place.down ? other : other + 1));
    }
  }

  // Where what this thread gets from part `from` lies.
  static __device__ __forceinline__ std::uint32_t place_of(const WeightGradientShared<Config>& shared,
                                                           int warpgroup, int from) {
    return shared.base + ((from * Config::tile.warpgroups + warpgroup) * (kOwn * 128) + thread()) * 16;
  }

  // Starts the matmuls of one stage.
  __device__ __forceinline__ void multiply(std::uint32_t d_y, std::uint32_t x, bool add) {
    constexpr int kStep = 16 * 128;  // to the next 16 rows
    // In a cluster an address says which block it is of; a descriptor's has no room for that.
    d_y &= 0x3FFFF, x &= 0x3FFFF;
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < WeightGradientTile::depth / 16; ++k) {
      wgmma::multiply_columns<typename Config::Storage, Config::tile.columns>(
          at_, wgmma::descriptor(d_y, 0, k * kStep),
          wgmma::descriptor(x, WeightGradientTile::panel_bytes, k * kStep), add || k > 0);
    }
    wgmma::commit();
  }

  // The block's own fragments, from `first` on, and the sum of their squares if the kernel is to have it.
  __device__ __forceinline__ float write(const WeightGradient& gradient, int row, int column,
                                         int first) const {
    float squares = 0.0f;
    const int lane = threadIdx.x % 32, warp = thread() / 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + warp * 16 + lane / 4 + half * 8;
      if (r >= gradient.m) continue;
      float* const to = gradient.d_w + static_cast<std::int64_t>(r) * gradient.n;
#pragma unroll
      for (int n = 0; n < kOwn; ++n) {
        const int c = column + (first + n) * 8 + lane % 4 * 2;
        if (c >= gradient.n) continue;
        const float(&x)[4] = at_[first + n];
        Vector<float, 2> sum{{x[half * 2], x[half * 2 + 1]}};
        if constexpr (Config::accumulate) {
          const Vector<float, 2> before = load<2>(to + c);
          sum.at[0] += before.at[0], sum.at[1] += before.at[1];
        }
        store(to + c, sum);
        if constexpr (Config::squares) squares += sum.at[0] * sum.at[0] + sum.at[1] * sum.at[1];
      }
    }
    return squares;
  }

  float at_[kFragments][4];
};

}  // namespace hydrac::cuda
