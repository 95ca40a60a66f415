// A warpgroup's epilogue of its panel of a small matmul's tile.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/small_matmul/shared.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// The warpgroup's threads meet.
__device__ __forceinline__ void sync_panel(int panel) {
  barrier::block_sync<128>(1 + panel);
}

// A thread has the same eight columns in all rows of the tile that it takes, and takes every kGroups-th row.
template <class Config, class Epilogue>
class SmallMatmulRows {
 public:
  // Of the tile's rows from `row` on, of `rows` that there are, and the panel's columns from `column` on.
  // Begins to load what does not depend on the matmul.
  __device__ __forceinline__ SmallMatmulRows(std::int64_t rows, int row, int column, Epilogue& epilogue)
      : row_(row + group_), column_(column + lane_ * 8), epilogue_(epilogue) {
    const std::int64_t below = rows - row_;
    left_ = column_ >= Config::n || below < 0 ? 0
            : below >= SmallMatmulTile::rows  ? SmallMatmulTile::rows
                                              : static_cast<int>(below);
    if (left_ > 0) epilogue_.begin(column_);
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue_.sum[s][j] = 0.0f;
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (has(step)) operands_[step] = epilogue_.load(this->row(step), column_);
    }
  }

  // The results are there.
  __device__ __forceinline__ void run(std::uint32_t results) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (!has(step)) continue;
      const std::uint32_t at = results +
                               (group_ + step * kGroups) * SmallMatmulShared<Config>::result_row_bytes +
                               (lane_ ^ group_ % 8) * 16;
      epilogue_(row(step), column_, __builtin_bit_cast(Values, ptx::load_shared<4>(at)), operands_[step]);
    }
  }

  // Adds up, in a fixed order, what the threads of each column have summed over the tile's rows, and writes
  // it to row `tile` of the partial sums. The results are no longer needed.
  __device__ __forceinline__ void store_sums(float* exchange, int panel, int tile) const {
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
      sync_panel(panel);
      const float(&sum)[8] = epilogue_.sum[s];
      float* const mine = exchange + group_ * kColumns + lane_ * 8;
      store(mine, Vector<float, 4>{sum[0], sum[1], sum[2], sum[3]});
      store(mine + 4, Vector<float, 4>{sum[4], sum[5], sum[6], sum[7]});
      sync_panel(panel);
      const int column = column_ - lane_ * 8 + thread_;
      if (thread_ < kColumns && column < Config::n) {
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) total += exchange[group * kColumns + thread_];
        epilogue_.partials[s][tile * std::int64_t{Config::n} + column] = total;
      }
    }
  }

 private:
  using Values = Vector<typename Config::Storage, 8>;
  using Operands = typename Epilogue::Operands;
  static constexpr int kColumns = SmallMatmulTile::panel_columns;
  static constexpr int kLanes = kColumns / 8;                     // threads of a row
  static constexpr int kGroups = 128 / kLanes;                    // rows at a time
  static constexpr int kSteps = SmallMatmulTile::rows / kGroups;  // rows of a thread
  static_assert(kGroups % 8 == 0);

  __device__ __forceinline__ std::int64_t row(int step) const {
    return std::int64_t{row_} + step * kGroups;
  }
  __device__ __forceinline__ bool has(int step) const {
    return step * kGroups < left_;
  }

  const int thread_ = static_cast<int>(threadIdx.x) % 128;
  const int lane_ = thread_ % kLanes, group_ = thread_ / kLanes;
  const int row_, column_;  // this thread's first
  Epilogue& epilogue_;
  int left_;  // rows from this thread's first to the end
  Operands operands_[kSteps];
};

}  // namespace hydrac::cuda
