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
  static constexpr int kThreads = Config::tile.epilogue_warps * 32;
  static constexpr int kLanes = Config::tile_columns / 8;  // threads of a row
  static constexpr int kGroups = kThreads / kLanes;        // rows at a time
  static constexpr int kSteps = (ProductTile::rows + kGroups - 1) / kGroups;  // rows of a thread
  static constexpr int kAhead = Config::tile.ahead;           // whose operands are under way

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
    for (int c = rows.thread; c < Config::tile_columns; c += Rows::kThreads) {
      const int column = place.column + c;
      if (column >= Config::columns || !has_rows) break;
      float total = 0.0f;
#pragma unroll
      for (int group = 0; group < Rows::kGroups; ++group) {
        total += exchange[group * Config::tile_columns + c];
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
  constexpr int kHalf = ProductTile::rows / 2;
  const Rows rows;
  // The results of a row of the tile; `chunk` counts 16 bytes.
  const auto values_at = [&](int row, int chunk) {
    const std::uint32_t from = shared.results() + row * Config::result_row_bytes + (chunk ^ row % 8) * 16;
    return __builtin_bit_cast(Values, ptx::load_shared<4>(from));
  };
  const auto release = [&](int half) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared.results_empty(half));
  };

  std::uint32_t parity = 0;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step(), parity ^= 1) {
    const ProductPlace place = tiles.place(tile);
    const int column = place.column + rows.lane * 8;
    // Of the tile's rows, those that there are.
    const std::int64_t below = row_count - place.row;
    const int end = column >= Config::columns ? 0 : below < ProductTile::rows ? static_cast<int>(below) : ProductTile::rows;
    typename Epilogue::Operands ahead[Rows::kAhead];
    if (end > 0) epilogue.begin(column);
#pragma unroll
    for (int i = 0; i < Rows::kAhead; ++i) {
      const int row = rows.group + i * Rows::kGroups;
      if (row < end) ahead[i] = epilogue.load(place.row + std::int64_t{row}, column);
    }
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue.sum[s][j] = 0.0f;
      }
    }
    barrier_wait(shared.results_full(0), parity);
    bool second = false;
#pragma unroll 1
    for (int from = rows.group; from < ProductTile::rows; from += Rows::kAhead * Rows::kGroups) {
#pragma unroll
      for (int i = 0; i < Rows::kAhead; ++i) {
        const int row = from + i * Rows::kGroups;
        if (row >= kHalf && !second) {
          second = true;
          release(0);
          barrier_wait(shared.results_full(1), parity);
        }
        const typename Epilogue::Operands operands = ahead[i];
        const int next = row + Rows::kAhead * Rows::kGroups;
        if (next < end) ahead[i] = epilogue.load(place.row + std::int64_t{next}, column);
        if (row < end) {
          if constexpr (Config::paired) {
            epilogue(place.row + std::int64_t{row}, column, values_at(row, rows.lane), values_at(row, rows.lane + Config::tile_columns / 8), operands);
          } else {
            epilogue(place.row + std::int64_t{row}, column, values_at(row, rows.lane), operands);
          }
        }
      }
    }
    release(1);
    if constexpr (Epilogue::sums > 0) store_sums(rows, exchange, place, place.row < row_count, epilogue);
  }
}

}  // namespace hydrac::cuda
