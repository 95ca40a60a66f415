// The epilogue of a block that has whole rows, such as a norm: the caller's struct in passes over rows, with
// sums over the row between them.
//
// It is a struct as for other epilogues, but called `passes` times. Between
// two passes the threads of a row add up what each has found. Instead of operator() it has
//   static constexpr int passes;      // 2 or more
//   static constexpr int reductions;  // sums over the row that a pass asks for, at most; 1 or more
//   struct Kept;                      // what later passes need of the calls before; may be empty
//   template <int pass>
//   void apply(std::int64_t row, int column, const Vector<Storage, 8>& values, const Operands&, Kept&,
//              const float (&totals)[reductions],  // over the row, of what the pass before found
//              float (&partial)[reductions]);      // zeros; what these columns add to this pass's
// and 0 to 3 sums, whose partials lie side by side in one matrix [matmul_sums_rows, sums * n].
#pragma once
#include "cuda/matmul/shared.cuh"
#include "cuda/ptx.cuh"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// How the consumers' threads share the block's rows. A thread has eight columns of every row that it takes.
// The threads of whole rows in whole warps are a team, which has some of the rows to itself.
template <class Config>
struct RowThreads {
  static constexpr int threads = Config::tile.consumers() * 128;
  static constexpr int rows = Config::tile.rows;
  static constexpr int row_threads = Config::n / 8;
  static constexpr int team_threads = row_threads == 48 ? 96 : 32;
  static constexpr int groups = team_threads / row_threads;  // rows of a team at a time
  static constexpr int teams = threads / team_threads;
  static constexpr int team_rows = rows / teams;
  static constexpr int steps = team_rows / groups;  // rows of a thread
  static_assert(team_threads % row_threads == 0 && rows % teams == 0 && team_rows % groups == 0);

  const int team = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0) / (team_threads / 32);
  const int group = static_cast<int>(threadIdx.x) % team_threads / row_threads;
  const int column = static_cast<int>(threadIdx.x) % row_threads * 8;  // the thread's first

  // Row in the block's tile.
  __device__ __forceinline__ int row(int step) const { return team * team_rows + step * groups + group; }
};

// The block's named barriers: of all consumers, and, from here on, of teams.
constexpr int kConsumersBarrier = 1;
constexpr int kTeamBarriers = 2;

// The block's rows begin at `first`; those below `end` are there. Behind their results, shared memory is
// free: it starts at `memory`.
template <class Config, class Epilogue>
class WholeRows {
  using Threads = RowThreads<Config>;
  using Values = Vector<typename Config::Storage, 8>;
  using Operands = typename Epilogue::Operands;
  using Kept = typename Epilogue::Kept;
  static constexpr int kReductions = Epilogue::reductions;
  // Rows of a thread that go through the passes together: as many as registers suffice for, 4 at most.
  static constexpr bool fits(int steps) {
    constexpr int row_bytes = 2 * sizeof(Operands) + sizeof(Values) + sizeof(Kept) + 8 * kReductions;
    return steps <= Threads::steps && Epilogue::sums * 32 + steps * row_bytes <= 288;
  }
  static constexpr int kSteps = fits(4) ? 4 : fits(2) ? 2 : 1;
  static constexpr int kChunks = Threads::steps / kSteps;
  static constexpr int kGroups = Threads::teams * Threads::groups;  // rows of the block at a time
  // A row's sums are added up within warps, or parts of them, and these meet in shared memory.
  static constexpr int kLanes = Threads::row_threads % 32 == 0 ? 32 : 16;
  static constexpr int kParts = Threads::row_threads / kLanes;
  static constexpr int kFloats = kSteps * kReductions;
  static_assert(Threads::steps % kSteps == 0 && Threads::row_threads % kLanes == 0);

 public:
  // Begins to load what the first rows read.
  __device__ __forceinline__ WholeRows(Epilogue& epilogue, const MatmulShared<Config>& shared,
                                       unsigned char* memory, std::int64_t first, std::int64_t end)
      : epilogue_(epilogue), shared_(shared), memory_(memory), first_(first), end_(end) {
    epilogue_.begin(thread_.column);
    if constexpr (Epilogue::sums > 0) {
#pragma unroll
      for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll
        for (int j = 0; j < 8; ++j) epilogue_.sum[s][j] = 0.0f;
      }
    }
    load<false>(0);
  }

  // The results are there.
  __device__ __forceinline__ void run() {
    if (first_ + Threads::rows <= end_) {
      run_chunks<true>();
    } else {
      run_chunks<false>();
    }
  }

  // Adds up, in a fixed order, what the threads of each column have summed over the block's rows, and writes
  // it to the block's row of the partial sums. The results are no longer needed.
  __device__ __forceinline__ void store_sums() const {
    float* const memory = reinterpret_cast<float*>(memory_);
    static_assert(Epilogue::sums * kGroups * Config::n * 4 <=
                  Config::tile.stages * Config::tile.stage_bytes());
    barrier::block_sync<Threads::threads>(kConsumersBarrier);  // all have read the results, where sums go
    const int group = thread_.team * Threads::groups + thread_.group;
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
      const float(&sum)[8] = epilogue_.sum[s];
      float* const mine = memory + (s * kGroups + group) * Config::n + thread_.column;
      store(mine, Vector<float, 4>{sum[0], sum[1], sum[2], sum[3]});
      store(mine + 4, Vector<float, 4>{sum[4], sum[5], sum[6], sum[7]});
    }
    barrier::block_sync<Threads::threads>(kConsumersBarrier);  // all groups' sums are there
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) {
#pragma unroll 1
      for (int column = static_cast<int>(threadIdx.x); column < Config::n; column += Threads::threads) {
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < kGroups; ++group)
          total += memory[(s * kGroups + group) * Config::n + column];
        epilogue_.partials[s][blockIdx.x * std::int64_t{Epilogue::sums * Config::n} + column] = total;
      }
    }
  }

 private:
  struct Totals {
    float at[kSteps][kReductions];
  };
  // Some of the thread's rows on their way through the passes.
  struct Chunk {
    Values values[kSteps];
    Operands operands[kSteps];
    Kept kept[kSteps];
    Totals totals;
  };
  // Operands on their way. Of elements of 16 bits the compiler would put each in a register of its own, and
  // wait for them to that end.
  struct Padded {
    alignas(Operands) alignas(std::uint32_t) Operands operands;
  };
  struct Words {
    std::uint32_t at[sizeof(Padded) / 4];
  };

  __device__ __forceinline__ std::int64_t row(int chunk, int i) const {
    return first_ + thread_.row(chunk * kSteps + i);
  }

  // Begins to load what a chunk reads; `whole`: all rows of the block are there.
  template <bool whole>
  __device__ __forceinline__ void load(int chunk) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (whole || row(chunk, i) < end_)
        ahead_[i] = __builtin_bit_cast(Words, Padded{epilogue_.load(row(chunk, i), thread_.column)});
    }
  }

  // Rows that are all there need no conditions, between which the compiler would not interleave them.
  template <bool whole>
  __device__ __forceinline__ void run_chunks() {
#pragma unroll 1
    for (int index = 0; index < kChunks; ++index) {
      Chunk chunk;
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const std::uint32_t from = shared_.whole_row(thread_.row(index * kSteps + i), thread_.column);
        chunk.values[i] = __builtin_bit_cast(Values, ptx::load_shared<4>(from));
        chunk.operands[i] = __builtin_bit_cast(Padded, ahead_[i]).operands;
      }
      run_passes<0, whole>(index, chunk);
    }
  }

  template <int pass, bool whole>
  __device__ __forceinline__ void run_passes(int index, Chunk& chunk) {
    Totals found;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int r = 0; r < kReductions; ++r) found.at[i][r] = 0.0f;
      if (whole || row(index, i) < end_) {
        epilogue_.template apply<pass>(row(index, i), thread_.column, chunk.values[i], chunk.operands[i],
                                       chunk.kept[i], chunk.totals.at[i], found.at[i]);
      }
    }
    // The next chunk's operands are under way while this one's sums meet. Earlier there would be too few
    // registers for both.
    if constexpr (pass == 0) {
      if (index + 1 < kChunks) load<whole>(index + 1);
    }
    if constexpr (pass + 1 < Epilogue::passes) {
      add_up(found);
      chunk.totals = found;
      run_passes<pass + 1, whole>(index, chunk);
    }
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
      __syncwarp();  // all lanes have their sums
    } else {
      static_assert(MatmulShared<Config>::whole_row_bytes + 2 * kGroups * kParts * kFloats * 4 <=
                    Config::tile.stages * Config::tile.stage_bytes());
      // The next call but one is the first to write here again, and its threads have met at the next call's
      // barrier.
      const int group = thread_.team * Threads::groups + thread_.group;
      float* const exchange = reinterpret_cast<float*>(memory_ + MatmulShared<Config>::whole_row_bytes) +
                              (turn_ * kGroups + group) * kParts * kFloats;
      turn_ ^= 1;
      if (thread_.column / 8 % kLanes == 0) {
        float* const mine = exchange + thread_.column / 8 / kLanes * kFloats;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
          for (int r = 0; r < kReductions; ++r) mine[i * kReductions + r] = sums.at[i][r];
        }
      }
      barrier::block_sync<Threads::team_threads>(kTeamBarriers + thread_.team);  // the team's parts are there
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

  const Threads thread_;
  Epilogue& epilogue_;
  const MatmulShared<Config> shared_;
  unsigned char* const memory_;
  const std::int64_t first_, end_;
  int turn_ = 0;
  Words ahead_[kSteps];
};

}  // namespace hydrac::cuda
