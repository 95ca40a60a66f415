// A matmul of at most 64 rows, such as those of a token of each sequence: the time is that of reading b once.
// A block computes one tile, and loads b while the kernel before still runs. The blocks of a cluster share a
// tile: each multiplies a part of k, then they exchange their sums through shared memory, and each hands a
// share of the rows to the epilogue. There is no workspace.
#pragma once
#include "cuda/matmul/epilogue.cuh"
#include "cuda/matmul/mainloop.cuh"
#include "cuda/matmul/operands.cuh"

namespace hydrac::cuda {

// How the blocks of a cluster finish a tile of whose k each has a part: block `part` finishes the fragments
// from part * own on, to which the others send what they have of them, where the stages were.
template <class Config>
class SplitTile {
  using Sums = MatmulSums<Config>;
  static constexpr int kSplit = Config::tile.split, kOwn = Sums::fragments / kSplit;
  static constexpr int kPanels = Config::tile.consumer_panels();

 public:
  __device__ __forceinline__ SplitTile(std::uint32_t base, int part) : base_(base), part_(part) {}

  // All blocks have read their stages.
  __device__ __forceinline__ void send(const Sums& sums) const {
#pragma unroll
    for (int other = 0; other < kSplit; ++other) {
      if (other == part_) continue;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
        for (int n = 0; n < kOwn; ++n)
          store_to_cluster(address_in(place_of(part_, panel, n), other), sums.at[panel][other * kOwn + n]);
      }
    }
  }

  // Adds all parts in their order, whichever of them is this block's, so that every row has the same bits
  // wherever it stands; and leaves the block's rows at `results`.
  __device__ __forceinline__ void finish(Sums& sums, std::uint32_t results) const {
#pragma unroll
    for (int own = 0; own < kSplit; ++own) {
      if (own != part_) continue;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
        for (int n = 0; n < kOwn; ++n) add(sums.at[panel][own * kOwn + n], own, panel, n);
      }
      sums.store_transposed(results, own, kSplit);
    }
  }

 private:
  __device__ __forceinline__ void add(float (&x)[4], int own, int panel, int n) const {
    float total[4];
#pragma unroll
    for (int other = 0; other < kSplit; ++other) {
      float sent[4] = {x[0], x[1], x[2], x[3]};
      if (other != own) {
        const auto words = ptx::load_shared<4>(place_of(other, panel, n));
#pragma unroll
        for (int e = 0; e < 4; ++e) sent[e] = float_from_bits(words.at[e]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) total[e] = other == 0 ? sent[e] : total[e] + sent[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) x[e] = total[e];
  }

  // Place of what this thread gets from another block.
  __device__ __forceinline__ std::uint32_t place_of(int from, int panel, int n) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    return base_ + (((from * kPanels + panel) * kOwn + n) * 128 + thread) * 16;
  }

  const std::uint32_t base_;
  const int part_;
};

template <class Config, class Epilogue>
__device__ __forceinline__ void few_rows_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                                Epilogue& epilogue, unsigned char* memory) {
  static_assert(Config::tile.rows == 64 && Config::tile.consumers() == 1 && Epilogue::sums == 0);
  constexpr int split = Config::tile.split;
  const MatmulShared<Config> shared{ptx::shared_address(memory)};
  const bool produces = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0) == 1;
  const int part = static_cast<int>(blockIdx.x) % split;
  MatmulPlace place{0, static_cast<int>(blockIdx.x) / split * Config::tile_columns};
  if (threadIdx.x == 128) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
  }
  __syncthreads();  // barriers are initialized before anyone waits on them
  if (produces) {
    if (threadIdx.x % 32 == 0)
      copy_tile(shared, a, b, place, 0, part * Config::depth_tiles * MatmulTile::depth);
    if constexpr (split > 1) {
      __syncwarp();    // the warp has converged before it arrives
      cluster_sync();  // as the consumers: before sums are sent,
      cluster_sync();  // and when they have arrived
    }
    return;
  }
  wait_for_previous_kernel();
  launch_next_kernel();
  place.row = part * Config::epilogue_rows;
  MatmulRows<Config, Epilogue> epilogue_rows(shared.results(0), 0, rows, place, epilogue);
  MatmulSums<Config> sums;
  sums.compute(MatmulOperands<Config>{shared, 0}, Config::depth_tiles);
  if constexpr (split > 1) {
    const SplitTile<Config> tile(shared.base, part);
    cluster_sync();  // no block reads its stages any longer
    tile.send(sums);
    cluster_sync();  // the other blocks' sums have arrived
    tile.finish(sums, shared.results(0));
  } else {
    sums.store_transposed(shared.results(0), 0, 1);
  }
  sync_consumer(0);
  epilogue_rows.run(0);
}

}  // namespace hydrac::cuda
