// The warps of a product's block that hand its results to the epilogue.
#pragma once
#include "cuda/attention/ptx.cuh"
#include "cuda/product/shared.cuh"
#include "cuda/product/tiles.cuh"
#include "cuda/reduce.cuh"

namespace hydrac::cuda {

// A thread has the same eight columns in all rows of a tile that it takes, and takes every kGroups-th row.
template <class Config>
struct ProductRows {
  static constexpr int kThreads = ProductTile::epilogue_warps * 32;
  static constexpr int kLanes = Config::tile_columns / 8;  // threads of a row
  static constexpr int kGroups = kThreads / kLanes;        // rows at a time
  static constexpr int kHalf = ProductTile::rows / 2 / kGroups;  // of a thread, in each half of a tile
  static constexpr int kAhead = kHalf < 4 ? kHalf : 4;           // whose operands are under way

  const int thread = static_cast<int>(threadIdx.x) - ProductTile::product_warps * 32;
  const int lane = thread % kLanes, group = thread / kLanes;
};

// Adds up, in a fixed order, what the threads of each column have summed over a tile's rows, and writes it to
// the tile's row of the partial sums. All threads of the epilogue call it.
template <class Config, class Epilogue>
__device__ __forceinline__ void store_sums(const ProductRows<Config>& rows, float* exchange,
                                           const ProductPlace& place, bool has_rows, Epilogue& epilogue) {
  using Rows = ProductRows<Config>;
#pragma unroll
  for (int s = 0; s < Epilogue::sums; ++s) {
    named_barrier(1, Rows::kThreads);  // what was there before has been read
    float* const mine = exchange + rows.group * Config::tile_columns + rows.lane * 8;
    store(mine, Vector<float, 4>{epilogue.sum[s][0], epilogue.sum[s][1], epilogue.sum[s][2], epilogue.sum[s][3]});
    store(mine + 4,
          Vector<float, 4>{epilogue.sum[s][4], epilogue.sum[s][5], epilogue.sum[s][6], epilogue.sum[s][7]});
    named_barrier(1, Rows::kThreads);
    const int column = place.column + rows.thread;
    if (rows.thread < Config::tile_columns && column < Config::columns && has_rows) {
      float total = 0.0f;
#pragma unroll
      for (int group = 0; group < Rows::kGroups; ++group) {
        total += exchange[group * Config::tile_columns + rows.thread];
      }
      epilogue.partials[s][place.row / ProductTile::rows * std::int64_t{Config::columns} + column] = total;
    }
  }
}

// By all threads of the epilogue: the block's tiles, row by row. `exchange` is shared memory for the sums.
template <class Config, class Epilogue>
__device__ __forceinline__ void run_epilogue(const ProductShared<Config>& shared,
                                             const ProductTiles<Config>& tiles, std::int64_t row_count,
                                             [[maybe_unused]] float* exchange, Epilogue& epilogue) {
  using Values = Vector<typename Config::Storage, 8>;
  using Rows = ProductRows<Config>;
  constexpr int kStepBytes = Rows::kGroups * Config::result_row_bytes;
  const Rows rows;
  const std::uint32_t results =
      shared.results() + rows.group * Config::result_row_bytes + (rows.lane ^ rows.group % 8) * 16;
  const auto values_at = [](std::uint32_t from) {
    return __builtin_bit_cast(Values, ptx::load_shared<4>(from));
  };

  std::uint32_t parity = 0;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
    const ProductPlace place = tiles.place(tile);
    const int column = place.column + rows.lane * 8;
    const std::int64_t first = place.row + rows.group;
    // Of this thread's rows of the tile, those that there are.
    const std::int64_t below = row_count - first;
    const int count = column >= Config::columns ? 0
                      : below >= ProductTile::rows
                          ? 2 * Rows::kHalf
                          : static_cast<int>((below + Rows::kGroups - 1) / Rows::kGroups);
    typename Epilogue::Operands ahead[Rows::kAhead];
    if (count > 0) epilogue.begin(column);
#pragma unroll
    for (int i = 0; i < Rows::kAhead; ++i) {
      if (i < count) ahead[i] = epilogue.load(first + i * Rows::kGroups, column);
    }
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue.sum[s][j] = 0.0f;
      }
    }
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      barrier_wait(shared.results_full(half), parity);
#pragma unroll 1
      for (int from = half * Rows::kHalf; from < (half + 1) * Rows::kHalf; from += Rows::kAhead) {
#pragma unroll
        for (int i = 0; i < Rows::kAhead; ++i) {
          const int step = from + i;
          const std::int64_t row = first + step * Rows::kGroups;
          const typename Epilogue::Operands operands = ahead[i];
          if (step + Rows::kAhead < count) {
            ahead[i] = epilogue.load(row + Rows::kAhead * Rows::kGroups, column);
          }
          if (step >= count) continue;
          const std::uint32_t values = results + step * kStepBytes;
          if constexpr (Config::paired) {
            epilogue(row, column, values_at(values), values_at(values + Config::tile_columns * 2), operands);
          } else {
            epilogue(row, column, values_at(values), operands);
          }
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(shared.results_empty(half));
    }
    parity ^= 1;
    if constexpr (Epilogue::sums > 0) store_sums(rows, exchange, place, place.row < row_count, epilogue);
  }
}

}  // namespace hydrac::cuda
