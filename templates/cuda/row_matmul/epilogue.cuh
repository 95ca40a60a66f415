// The epilogue of a row matmul's block: whole rows, in passes with sums over the row between them.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/row_matmul/chunks.cuh"

namespace hydrac::cuda {

// The block's own barriers, beside 0: of the threads of the epilogue, and, from here on, of teams.
constexpr int kRowThreadsBarrier = 1;
constexpr int kRowTeamBarriers = 3;

// Of the block's rows, which begin at `first`, those below `end` are there.
template <class Config, class Epilogue>
class RowMatmulRows {
  using Kept = typename Epilogue::Kept;
  using Chunks = RowChunks<Config, Epilogue>;
  static constexpr int kSteps = Chunks::steps;
  static constexpr int kReductions = Epilogue::reductions;
  static constexpr int kGroups = Config::teams * Config::team_groups;  // rows at a time
  // A row's sums are added up within warps, or parts of them, and these meet in shared memory.
  static constexpr int kLanes = Config::row_threads % 32 == 0 ? 32 : 16;
  static constexpr int kParts = Config::row_threads / kLanes;
  static constexpr int kFloats = kSteps * kReductions;
  static_assert(Config::row_threads % kLanes == 0);
  struct Totals {
    float at[kSteps][kReductions];
  };

 public:
  using Values = Vector<typename Config::Storage, 8>;
  using Operands = typename Epilogue::Operands;

  // Sums of rows meet at `exchange`.
  __device__ __forceinline__ RowMatmulRows(Epilogue& epilogue, const RowThread<Config>& thread,
                                           float* exchange, std::int64_t first, std::int64_t end)
      : epilogue_(epilogue), thread_(thread), exchange_(exchange), first_(first), end_(end) {}

  // What does not depend on the row.
  __device__ __forceinline__ void begin() {
    epilogue_.begin(thread_.column);
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue_.sum[s][j] = 0.0f;
      }
    }
  }

  // A chunk of the thread's rows on its way through the passes.
  struct Chunk {
    Values values[kSteps];
    Operands operands[kSteps];
    Kept kept[kSteps];
    Totals totals;
  };

  // The first pass, and its sums. Behind it all threads of the team have taken what they read of the chunk.
  // Rows that are all there, `whole`, need no conditions, between which the compiler would not interleave
  // them.
  template <bool whole>
  __device__ __forceinline__ void begin_passes(int index, Chunk& chunk) {
    run_pass<0, whole>(index, chunk);
  }
  template <bool whole>
  __device__ __forceinline__ void finish_passes(int index, Chunk& chunk) {
    run_passes<1, whole>(index, chunk);
  }

  // Adds up, in a fixed order, what the threads of each column have summed over the block's rows, and writes
  // it to the block's row of the partial sums. `memory` is shared memory that nobody reads any longer when
  // the threads have met.
  __device__ __forceinline__ void store_sums(float* memory) const {
    static_assert(Epilogue::sums * kGroups * Config::n * 4 <=
                  Config::tile.stages * Config::tile.stage_bytes());
    barrier::block_sync<Config::epilogue_threads>(kRowThreadsBarrier);
    const int group = thread_.team * Config::team_groups + thread_.group;
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
      const float(&sum)[8] = epilogue_.sum[s];
      float* const mine = memory + (s * kGroups + group) * Config::n + thread_.column;
      store(mine, Vector<float, 4>{sum[0], sum[1], sum[2], sum[3]});
      store(mine + 4, Vector<float, 4>{sum[4], sum[5], sum[6], sum[7]});
    }
    barrier::block_sync<Config::epilogue_threads>(kRowThreadsBarrier);
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll 1
      for (int column = static_cast<int>(threadIdx.x); column < Config::n;
           column += Config::epilogue_threads) {
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < kGroups; ++group)
          total += memory[(s * kGroups + group) * Config::n + column];
        epilogue_.partials[s][blockIdx.x * std::int64_t{Epilogue::sums * Config::n} + column] = total;
      }
    }
  }

 private:
  template <int pass, bool whole>
  __device__ __forceinline__ void run_pass(int index, Chunk& chunk) {
    Totals found;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int r = 0; r < kReductions; ++r) found.at[i][r] = 0.0f;
      const std::int64_t row = first_ + thread_.row(index * kSteps + i);
      if (whole || row < end_) {
        epilogue_.template apply<pass>(row, thread_.column, chunk.values[i], chunk.operands[i], chunk.kept[i],
                                       chunk.totals.at[i], found.at[i]);
      }
    }
    if constexpr (pass + 1 < Epilogue::passes) {
      add_up(found);
      chunk.totals = found;
    }
  }

  template <int pass, bool whole>
  __device__ __forceinline__ void run_passes(int index, Chunk& chunk) {
    run_pass<pass, whole>(index, chunk);
    if constexpr (pass + 1 < Epilogue::passes) run_passes<pass + 1, whole>(index, chunk);
  }

  // Replaces each sum by that over the row, in a fixed order: all its threads get the same bits. The team's
  // threads have met behind it.
  __device__ __forceinline__ void add_up(Totals& sums) {
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int r = 0; r < kReductions; ++r)
          sums.at[i][r] += __shfl_xor_sync(0xFFFFFFFFu, sums.at[i][r], lanes);
      }
    }
    if constexpr (kParts == 1) {
      __syncwarp();
    } else {
      static_assert(2 * kGroups * kParts * kFloats * 4 <= RowMatmulTile::exchange_bytes);
      // The next call but one is the first to write here again, and its threads have met at the next call's
      // barrier.
      const int group = thread_.team * Config::team_groups + thread_.group;
      float* const exchange = exchange_ + (turn_ * kGroups + group) * kParts * kFloats;
      turn_ ^= 1;
      if (thread_.column / 8 % kLanes == 0) {
        float* const mine = exchange + thread_.column / 8 / kLanes * kFloats;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
          for (int r = 0; r < kReductions; ++r) mine[i * kReductions + r] = sums.at[i][r];
        }
      }
      barrier::block_sync<Config::team_threads>(kRowTeamBarriers + thread_.team);
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int r = 0; r < kReductions; ++r) {
          float total = exchange[i * kReductions + r];
#pragma unroll
          for (int part = 1; part < kParts; ++part) total += exchange[part * kFloats + i * kReductions + r];
          sums.at[i][r] = total;
        }
      }
    }
  }

  Epilogue& epilogue_;
  const RowThread<Config>& thread_;
  float* const exchange_;
  const std::int64_t first_, end_;
  int turn_ = 0;
};

}  // namespace hydrac::cuda
