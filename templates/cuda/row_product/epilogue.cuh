// The epilogue of a row product's block: whole rows, in passes with sums over the row between them.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/row_product/gather.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// Operands on their way. Of elements of 16 bits the compiler would put each in a register of its own, and
// wait for them to that end.
template <class Epilogue>
class RowOperands {
 public:
  using Operands = typename Epilogue::Operands;

  __device__ __forceinline__ void load(const Epilogue& epilogue, std::int64_t row, int column) {
    words_ = __builtin_bit_cast(Words, Padded{epilogue.load(row, column)});
  }

  __device__ __forceinline__ Operands get() const { return __builtin_bit_cast(Padded, words_).operands; }

 private:
  struct Padded {
    alignas(Operands) alignas(std::uint32_t) Operands operands;
  };
  struct Words {
    std::uint32_t at[sizeof(Padded) / 4];
  };
  Words words_;
};

// A thread has the same eight columns in all rows that it takes, and takes every groups-th row. `memory` is
// the start of shared memory: stages of a, which nobody reads any longer when the epilogue runs, and results.
template <class Config, class Epilogue>
class RowProductRows {
 public:
  // The block's rows from `first` on, of `rows` that there are in all.
  __device__ __forceinline__ RowProductRows(unsigned char* memory, std::int64_t rows, int first,
                                            Epilogue& epilogue)
      : memory_(reinterpret_cast<float*>(memory)), row_(first + group_), epilogue_(epilogue) {
    const std::int64_t below = rows - row_;
    left_ = below < 0 ? 0 : below >= Config::rows ? Config::rows : static_cast<int>(below);
    whole_ = first + Config::rows <= rows;
  }

  // Begins to load what does not depend on the product.
  __device__ __forceinline__ void begin() {
    epilogue_.begin(column_);
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue_.sum[s][j] = 0.0f;
      }
    }
    if (whole_) {
      load<true>(0);
    } else {
      load<false>(0);
    }
  }

  // The rows are there.
  __device__ __forceinline__ void run(const SmallProductShared<Config>& shared) {
    if (whole_) {
      run<true>(shared);
    } else {
      run<false>(shared);
    }
  }

  // Adds up, in a fixed order, what the threads of each column have summed over the block's rows, and writes
  // it to the block's row of the partial sums.
  __device__ __forceinline__ void store_sums() const {
    static_assert(Epilogue::sums * Config::groups * Config::n * 4 <=
                  Config::tile.stages * Config::tile.stage_bytes());
    barrier::meet<Config::product_threads>(1);  // nobody reads results or sums of rows any longer
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
      const float(&sum)[8] = epilogue_.sum[s];
      float* const mine = memory_ + (s * Config::groups + group_) * Config::n + column_;
      store(mine, Vector<float, 4>{sum[0], sum[1], sum[2], sum[3]});
      store(mine + 4, Vector<float, 4>{sum[4], sum[5], sum[6], sum[7]});
    }
    barrier::meet<Config::product_threads>(1);
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll 1
      for (int column = static_cast<int>(threadIdx.x); column < Config::n;
           column += Config::product_threads) {
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < Config::groups; ++group)
          total += memory_[(s * Config::groups + group) * Config::n + column];
        epilogue_.partials[s][blockIdx.x * std::int64_t{Epilogue::sums * Config::n} + column] = total;
      }
    }
  }

 private:
  using Values = Vector<typename Config::Storage, 8>;
  using Operands = typename Epilogue::Operands;
  using Kept = typename Epilogue::Kept;
  static constexpr int kReductions = Epilogue::reductions;
  // Rows of a thread that go through the passes together, as many as registers suffice for, 4 at most.
  static constexpr bool fits(int rows) {
    constexpr int kRow = 2 * sizeof(RowOperands<Epilogue>) + sizeof(Values) + sizeof(Kept) + 8 * kReductions;
    return rows <= Config::steps && Epilogue::sums * 32 + rows * kRow <= 384;
  }
  static constexpr int kAtOnce = fits(4) ? 4 : fits(2) ? 2 : 1;
  // A row's sums are added up within warps, or parts of them, and these meet in shared memory.
  static constexpr int kLanes = Config::row_threads % 32 == 0 ? 32 : 16;
  static constexpr int kParts = Config::row_threads / kLanes;
  static_assert(Config::steps % kAtOnce == 0 && Config::row_threads % kLanes == 0);
  struct Totals {
    float at[kAtOnce][kReductions];
  };

  __device__ __forceinline__ std::int64_t row(int step) const {
    return std::int64_t{row_} + step * Config::groups;
  }
  template <bool whole>
  __device__ __forceinline__ bool has(int step) const {
    return whole || step * Config::groups < left_;
  }

  // The operands of the rows from `step` on.
  template <bool whole>
  __device__ __forceinline__ void load(int step) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (has<whole>(step + i)) ahead_[i].load(epilogue_, row(step + i), column_);
    }
  }

  // Rows that are all there need no conditions, between which the compiler would not interleave them.
  template <bool whole>
  __device__ __forceinline__ void run(const SmallProductShared<Config>& shared) {
#pragma unroll 1
    for (int step = 0; step < Config::steps; step += kAtOnce) {
      Values values[kAtOnce];
      Operands operands[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        values[i] = read_row<Config>(shared, group_ + (step + i) * Config::groups, column_);
        operands[i] = ahead_[i].get();
      }
      if (step + kAtOnce < Config::steps) load<whole>(step + kAtOnce);
      Kept kept[kAtOnce];
      Totals totals;
      run_passes<0, whole>(step, values, operands, kept, totals);
    }
  }

  template <int pass, bool whole>
  __device__ __forceinline__ void run_passes(int step, const Values (&values)[kAtOnce],
                                             const Operands (&operands)[kAtOnce], Kept (&kept)[kAtOnce],
                                             const Totals& totals) {
    Totals found;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
      for (int r = 0; r < kReductions; ++r) found.at[i][r] = 0.0f;
      if (has<whole>(step + i)) {
        epilogue_.template apply<pass>(row(step + i), column_, values[i], operands[i], kept[i], totals.at[i],
                                       found.at[i]);
      }
    }
    if constexpr (pass + 1 < Epilogue::passes) {
      add_up(found);
      run_passes<pass + 1, whole>(step, values, operands, kept, found);
    }
  }

  // Replaces each sum by that over the row, in a fixed order: all its threads get the same bits.
  __device__ __forceinline__ void add_up(Totals& sums) {
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int r = 0; r < kReductions; ++r)
          sums.at[i][r] += __shfl_xor_sync(0xFFFFFFFFu, sums.at[i][r], lanes);
      }
    }
    if constexpr (kParts > 1) {
      constexpr int kFloats = kAtOnce * kReductions;
      static_assert(2 * Config::groups * kParts * kFloats * 4 <= SmallProductShared<Config>::a_bytes);
      // The next call but one is the first to write here again, and its threads have met at the next call's
      // barrier.
      float* const exchange = memory_ + (turn_ * Config::groups + group_) * kParts * kFloats;
      turn_ ^= 1;
      if (column_ / 8 % kLanes == 0) {
        float* const mine = exchange + column_ / 8 / kLanes * kFloats;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
          for (int r = 0; r < kReductions; ++r) mine[i * kReductions + r] = sums.at[i][r];
        }
      }
      barrier::meet<Config::product_threads>(1);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int r = 0; r < kReductions; ++r) {
          float total = 0.0f;
#pragma unroll
          for (int part = 0; part < kParts; ++part) total += exchange[part * kFloats + i * kReductions + r];
          sums.at[i][r] = total;
        }
      }
    }
  }

  float* const memory_;
  const int group_ = static_cast<int>(threadIdx.x) / Config::row_threads;
  const int column_ = static_cast<int>(threadIdx.x) % Config::row_threads * 8;
  const int row_;  // this thread's first
  Epilogue& epilogue_;
  int left_;    // rows from this thread's first to the end of all
  bool whole_;  // all of the block's rows are there
  int turn_ = 0;
  RowOperands<Epilogue> ahead_[kAtOnce];
};

}  // namespace hydrac::cuda
