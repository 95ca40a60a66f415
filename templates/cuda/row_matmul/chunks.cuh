// How the threads of a block share its rows in the epilogue.
#pragma once
#include "cuda/row_matmul/config.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// The eight columns of a thread, and its rows: every team_groups-th of its team's.
template <class Config>
struct RowThread {
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);  // of the block
  const int team = warp / (Config::team_threads / 32);
  const int group = static_cast<int>(threadIdx.x) % Config::team_threads / Config::row_threads;
  const int column = static_cast<int>(threadIdx.x) % Config::row_threads * 8;

  // Of the block's.
  __device__ __forceinline__ int row(int step) const {
    return team * Config::team_rows + step * Config::team_groups + group;
  }
  // Whether the thread's warp is the first of its team.
  __device__ __forceinline__ bool leads() const { return warp % (Config::team_threads / 32) == 0; }
};

// The rows that go through the passes together: of a thread as many as registers suffice for, 4 at most.
template <class Config, class Epilogue>
struct RowChunks {
  static constexpr bool fits(int steps) {
    constexpr int kOperands = (Config::tile.has_whole_rows() ? 1 : 2) * sizeof(typename Epilogue::Operands);
    constexpr int kRow = kOperands + sizeof(Vector<typename Config::Storage, 8>) +
                         sizeof(typename Epilogue::Kept) + 8 * Epilogue::reductions;
    return steps <= Config::steps && Epilogue::sums * 32 + steps * kRow <= 384;
  }
  static constexpr int steps = fits(4) ? 4 : fits(2) ? 2 : 1;  // of a thread
  static constexpr int rows = steps * Config::team_groups;     // of a team
  static constexpr int count = Config::steps / steps;
  static_assert(Config::steps % steps == 0);
};

// Of the rows from `first` on, `rows` in all, those below `end`.
__device__ __forceinline__ int rows_below(std::int64_t end, std::int64_t first, int rows) {
  const std::int64_t below = end - first;
  return below < 0 ? 0 : below < rows ? static_cast<int>(below) : rows;
}

}  // namespace hydrac::cuda
