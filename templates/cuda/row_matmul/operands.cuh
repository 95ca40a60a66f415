// What an epilogue reads of its rows, on its way to registers: a thread loads its next rows while it works on
// these.
#pragma once
#include "cuda/row_matmul/chunks.cuh"

namespace hydrac::cuda {

template <class Config, class Epilogue>
class LoadedOperands {
  using Chunks = RowChunks<Config, Epilogue>;

 public:
  // Of the thread's rows, those below `end`; the block's begin at `first`.
  __device__ __forceinline__ LoadedOperands(const Epilogue& epilogue, const RowThread<Config>& thread,
                                            std::int64_t first, std::int64_t end)
      : epilogue_(epilogue), row_(first + thread.row(0)), column_(thread.column), end_(end) {}

  // Begins to load the rows of a chunk; `whole`: they are all there.
  template <bool whole>
  __device__ __forceinline__ void load(int chunk) {
#pragma unroll
    for (int i = 0; i < Chunks::steps; ++i) {
      const std::int64_t row = row_ + (chunk * Chunks::steps + i) * Config::team_groups;
      if (whole || row < end_) words_[i] = __builtin_bit_cast(Words, Padded{epilogue_.load(row, column_)});
    }
  }

  // The chunk's operands; begins to load those of the next.
  template <bool whole>
  __device__ __forceinline__ void take(int chunk, typename Epilogue::Operands (&operands)[Chunks::steps]) {
#pragma unroll
    for (int i = 0; i < Chunks::steps; ++i) operands[i] = __builtin_bit_cast(Padded, words_[i]).operands;
    if (chunk + 1 < Chunks::count) load<whole>(chunk + 1);
  }

 private:
  // Of elements of 16 bits the compiler would put each in a register of its own, and wait for them to that
  // end.
  struct Padded {
    alignas(typename Epilogue::Operands) alignas(std::uint32_t) typename Epilogue::Operands operands;
  };
  struct Words {
    std::uint32_t at[sizeof(Padded) / 4];
  };

  const Epilogue& epilogue_;
  const std::int64_t row_;  // the thread's first
  const int column_;
  const std::int64_t end_;
  Words words_[Chunks::steps];
};

}  // namespace hydrac::cuda
