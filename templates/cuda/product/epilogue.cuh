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
  static constexpr int kLanes = Config::tile_columns / 8;        // threads of a row
  static constexpr int kGroups = kThreads / kLanes;              // rows at a time
  static constexpr int kHalf = ProductTile::rows / 2 / kGroups;  // of a thread, in each half of a tile
  static constexpr int kWanted = Config::tile.epilogue_warps == 8 && Config::tile.copy_warp ? 2 : 4;
  static constexpr int kAhead = kHalf < kWanted ? kHalf : kWanted;  // whose operands are under way

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
    store(mine,
          Vector<float, 4>{epilogue.sum[s][0], epilogue.sum[s][1], epilogue.sum[s][2], epilogue.sum[s][3]});
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
template <class Config, class Epilogue, class Poll>
__device__ __forceinline__ void run_epilogue(const ProductShared<Config>& shared,
                                             const ProductTiles<Config>& tiles, std::int64_t row_count,
                                             [[maybe_unused]] float* exchange, Epilogue& epilogue,
                                             const Poll& poll) {
  using Values = Vector<typename Config::Storage, 8>;
  using Rows = ProductRows<Config>;
  constexpr int kStepBytes = Rows::kGroups * Config::result_row_bytes;
  const Rows rows;
  const std::uint32_t results = shared.results() + rows.group * Config::result_row_bytes;
  const auto values_at = [&](int step, int chunk) {
    const std::uint32_t from =
        results + step * kStepBytes + ((rows.lane ^ (rows.group + step * Rows::kGroups) % 8) + chunk) * 16;
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
    const bool whole = __all_sync(0xFFFFFFFFu, count == 2 * Rows::kHalf);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      if constexpr (!Config::tile.copy_warp) {
        while (!barrier_test(shared.results_full(half), parity)) poll();
      }
      barrier_wait(shared.results_full(half), parity);
#pragma unroll 1
      for (int from = half * Rows::kHalf; from < (half + 1) * Rows::kHalf; from += Rows::kAhead) {
        const auto call = [&](int i, const Values& first_values, const Values& second_values,
                              const typename Epilogue::Operands& operands) {
          const std::int64_t row = first + (from + i) * Rows::kGroups;
          if constexpr (Config::paired) {
            epilogue(row, column, first_values, second_values, operands);
          } else {
            epilogue(row, column, first_values, operands);
          }
        };
        if (whole) {
#pragma unroll
          for (int i = 0; i < Rows::kAhead; i += 2) {
            poll();
            const Values v0 = values_at(from + i, 0), v1 = values_at(from + i + 1, 0);
            Values w0, w1;
            if constexpr (Config::paired)
              w0 = values_at(from + i, Config::tile_columns / 8),
              w1 = values_at(from + i + 1, Config::tile_columns / 8);
            const typename Epilogue::Operands o0 = ahead[i], o1 = ahead[i + 1];
            if (from + Rows::kAhead < 2 * Rows::kHalf) {
              ahead[i] = epilogue.load(first + (from + i + Rows::kAhead) * Rows::kGroups, column);
              ahead[i + 1] = epilogue.load(first + (from + i + 1 + Rows::kAhead) * Rows::kGroups, column);
            }
            call(i, v0, w0, o0);
            call(i + 1, v1, w1, o1);
          }
        } else {
          poll();
#pragma unroll
          for (int i = 0; i < Rows::kAhead; ++i) {
            const int step = from + i;
            const typename Epilogue::Operands operands = ahead[i];
            if (step + Rows::kAhead < count)
              ahead[i] = epilogue.load(first + (step + Rows::kAhead) * Rows::kGroups, column);
            if (step >= count) continue;
            const Values v = values_at(step, 0);
            Values w;
            if constexpr (Config::paired) w = values_at(step, Config::tile_columns / 8);
            call(i, v, w, operands);
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
