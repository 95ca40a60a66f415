// The epilogue of a consumer warpgroup: the caller's struct (cuda/matmul/matmul.cuh) over rows of one tile.
#pragma once
#include "cuda/matmul/shared.cuh"
#include "cuda/matmul/tile_scheduler.cuh"
#include "cuda/ptx.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// Among the threads of one consumer.
__device__ __forceinline__ void sync_consumer(int consumer) {
  barrier::block_sync<128>(1 + consumer);  // results may be read, or overwritten: all are here
}

// A thread has the same eight columns in all rows of the tile that it takes, and takes every kGroups-th row.
// `place`: of the consumer's columns.
template <class Config, class Epilogue>
class MatmulRows {
 public:
  __device__ __forceinline__ MatmulRows(std::uint32_t results, int consumer, std::int64_t rows,
                                        const MatmulPlace& place, Epilogue& epilogue)
      : results_(results), consumer_(consumer), place_(place), epilogue_(epilogue) {
    const std::int64_t below = rows - place.row - group_;
    left_ = column() >= Config::columns || below < 0 ? 0
            : below >= Config::epilogue_rows         ? Config::epilogue_rows
                                                     : static_cast<int>(below);
    has_rows_ = place.row < rows;
    whole_ = place.row + Config::epilogue_rows <= rows && place.column + kColumns <= Config::columns;
    epilogue_.begin(column() < Config::columns ? column() : 0);
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue_.sum[s][j] = 0.0f;
      }
    }
    if (whole_) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) ahead_[i] = load(i);
    }
  }

  // The rows of one part of the tile, whose results are there.
  __device__ __forceinline__ void run(int part) {
    const int first = part * kPartSteps, end = first + kPartSteps;
    if (whole_) {
#pragma unroll 1
      for (int from = first; from < end; from += kAhead) {
        Values values[kAhead][kSides];
        Operands operands[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          read(values[i], from + i - first);
          operands[i] = __builtin_bit_cast(Padded, ahead_[i]).operands;
        }
        // The last iteration loads its last row again: behind a condition the compiler would put all loads,
        // the other iterations' too, below the arithmetic.
        if constexpr (kAhead < kSteps) {
#pragma unroll
          for (int i = 0; i < kAhead; ++i) {
            const int next = from + kAhead + i;
            ahead_[i] = load(next < kSteps ? next : kSteps - 1);
          }
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) call(from + i, values[i], operands[i]);
      }
    } else {
#pragma unroll 1
      for (int step = first; step < end && has(step); ++step) {
        Values values[kSides];
        read(values, step - first);
        call(step, values, epilogue_.load(row(step), column()));
      }
    }
  }

  // Adds up, in a fixed order, what the threads of each column have summed over the tile's rows, and writes
  // it to the tile's row of the partial sums. The results are no longer needed.
  __device__ __forceinline__ void store_sums(float* exchange) const {
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
      sync_consumer(consumer_);
      const float(&sum)[8] = epilogue_.sum[s];
      float* const mine = exchange + group_ * kColumns + lane_ * 8;
      store(mine, Vector<float, 4>{sum[0], sum[1], sum[2], sum[3]});
      store(mine + 4, Vector<float, 4>{sum[4], sum[5], sum[6], sum[7]});
      sync_consumer(consumer_);
      const int column = place_.column + thread_;
      if (has_rows_ && thread_ < kColumns && column < Config::columns) {
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) total += exchange[group * kColumns + thread_];
        epilogue_.partials[s][place_.row / Config::epilogue_rows * std::int64_t{Config::columns} + column] =
            total;
      }
    }
  }

 private:
  using Values = Vector<typename Config::Storage, 8>;
  using Operands = typename Epilogue::Operands;
  // Operands on their way. Of elements of 16 bits the compiler would put each in a register of its own, and
  // wait for them to that end.
  struct Padded {
    alignas(Operands) alignas(std::uint32_t) Operands operands;
  };
  struct Words {
    std::uint32_t at[sizeof(Padded) / 4];
  };
  static constexpr int kSides = Config::sides;
  static constexpr int kColumns = Config::consumer_columns;
  static constexpr int kLanes = kColumns / 8;                       // threads of a row
  static constexpr int kGroups = 128 / kLanes;                      // rows at a time
  static constexpr int kSteps = Config::epilogue_rows / kGroups;    // rows of a thread
  static constexpr int kPartSteps = kSteps / Config::tile.parts();  // of which results are there at once
  // Rows whose operands are under way.
  static constexpr int kAhead = kPartSteps % 4 == 0 ? 4 : kPartSteps % 3 == 0 ? 3 : kPartSteps;
  static_assert(kPartSteps % kAhead == 0 && kGroups % 8 == 0);

  __device__ __forceinline__ int column() const {
    return place_.column + lane_ * 8;
  }
  __device__ __forceinline__ std::int64_t row(int step) const {
    return place_.row + std::int64_t{group_ + step * kGroups};
  }
  __device__ __forceinline__ bool has(int step) const {
    return step * kGroups < left_;
  }

  __device__ __forceinline__ Words load(int step) const {
    return __builtin_bit_cast(Words, Padded{epilogue_.load(row(step), column())});
  }
  __device__ __forceinline__ void read(Values (&values)[kSides], int step) const {
    const std::uint32_t from = results_ + (group_ + step * kGroups) * MatmulShared<Config>::result_row_bytes +
                               (lane_ ^ group_ % 8) * 16;
#pragma unroll
    for (int side = 0; side < kSides; ++side) {
      values[side] = __builtin_bit_cast(Values, ptx::load_shared<4>(from + side * 128));
    }
  }
  __device__ __forceinline__ void call(int step, const Values (&values)[kSides], const Operands& operands) {
    if constexpr (Config::paired) {
      epilogue_(row(step), column(), values[0], values[1], operands);
    } else {
      epilogue_(row(step), column(), values[0], operands);
    }
  }

  const int thread_ = static_cast<int>(threadIdx.x) % 128;
  const int lane_ = thread_ % kLanes, group_ = thread_ / kLanes;
  const std::uint32_t results_;
  const int consumer_;
  const MatmulPlace place_;
  Epilogue& epilogue_;
  int left_;       // rows from this thread's first to the end
  bool has_rows_;  // the tile has: the last one of a cluster may lie behind the end
  bool whole_;     // all rows and columns of the tile are there
  Words ahead_[kAhead];
};

}  // namespace hydrac::cuda
