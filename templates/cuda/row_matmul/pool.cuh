// What an epilogue reads of its rows, on its way to the pool of shared memory: the copies begin when the last
// matmuls free it, and a slot that a team has read is filled again.
#pragma once
#include "cuda/row_matmul/chunks.cuh"
#include "cuda/row_matmul/shared.cuh"

namespace hydrac::cuda {

// Visits an epilogue's pointers: begins to copy `rows` rows from `row` on, one tensor behind the other, each
// of which has room for `room` rows, and arrives at a barrier once for each.
struct CopyRows {
  std::uint32_t barrier, to;
  std::int64_t row;
  int rows, room;

  template <class T>
  __device__ __forceinline__ void operator()(const T* tensor, std::int64_t width) {
    const int row_bytes = static_cast<int>(width * sizeof(T));
    if (rows > 0) {
      barrier::arrive_with_copy(barrier, to, tensor + row * width, rows * row_bytes);
    } else {
      barrier::arrive(barrier);
    }
    to += room * row_bytes;
  }
};

// The same of one number a row. Copies are of 16 bytes: what lies behind the last row is read to there, and
// not used.
struct CopyStatistics {
  std::uint32_t barrier, to;
  std::int64_t row;
  int rows, room;

  __device__ __forceinline__ void operator()(const float* statistics) {
    if (rows > 0) {
      barrier::arrive_with_copy(barrier, to, statistics + row, (rows + 3) / 4 * 16);
    } else {
      barrier::arrive(barrier);
    }
    to += room * 4;
  }
};

// Makes pointers lead to such a copy.
struct FindRows {
  const unsigned char* at;
  std::int64_t row;  // the first one's number
  int room;

  template <class T>
  __device__ __forceinline__ void operator()(const T*& tensor, std::int64_t width) {
    tensor = reinterpret_cast<const T*>(at) - row * width;
    at += room * width * sizeof(T);
  }
};
struct FindStatistics {
  const unsigned char* at;
  std::int64_t row;
  int room;

  __device__ __forceinline__ void operator()(const float*& statistics) {
    statistics = reinterpret_cast<const float*>(at) - row;
    at += room * 4;
  }
};

// A slot has a chunk of a team's rows. The block's rows begin at `first`; those below `end` are there.
template <class Config, class Epilogue>
struct RowPool {
  using Chunks = RowChunks<Config, Epilogue>;
  using Shared = RowMatmulShared<Config>;
  static constexpr int slot_bytes = Chunks::rows * static_cast<int>(Epilogue::row_bytes);
  // Of a team: as many as it has chunks, or as there is room and barriers for.
  static constexpr int least(int a, int b) { return a < b ? a : b; }
  static constexpr int slots =
      least(least(Chunks::count, Shared::most_slots / Config::teams),
            Shared::pool_bytes / (Config::teams * (slot_bytes > 0 ? slot_bytes : 1)));
  // Of the ring, that slots lie in.
  static constexpr int stages =
      (slots * Config::teams * slot_bytes + Shared::stage_bytes - 1) / Shared::stage_bytes;
  static_assert(slots > 0 && Epilogue::row_statistics <= RowMatmulTile::statistics);

  const Shared& shared;
  Epilogue& epilogue;
  std::int64_t first, end;

  // By the thread that creates the block's barriers.
  __device__ __forceinline__ void create_barriers() const {
    if constexpr (Epilogue::row_statistics > 0)
      barrier::init(shared.statistics_full(), Epilogue::row_statistics);
    if constexpr (Epilogue::row_tensors > 0) {
      for (int slot = 0; slot < slots * Config::teams; ++slot)
        barrier::init(shared.slot_full(slot), Epilogue::row_tensors);
    }
  }

  static __device__ __forceinline__ int slot(int team, int chunk) {
    return chunk % slots * Config::teams + team;
  }
  __device__ __forceinline__ std::int64_t row(int team, int chunk) const {
    return first + team * Config::team_rows + chunk * Chunks::rows;
  }

  // By one thread.
  __device__ __forceinline__ void copy(int team, int chunk) const {
    CopyRows rows{shared.slot_full(slot(team, chunk)), shared.base + slot(team, chunk) * slot_bytes,
                  row(team, chunk), rows_below(end, row(team, chunk), Chunks::rows), Chunks::rows};
    epilogue.visit_rows(rows);
  }

  // By the thread that copies operands of the matmuls, behind the last of them.
  __device__ __forceinline__ void fill() const {
    if constexpr (Epilogue::row_statistics > 0) {
      CopyStatistics statistics{shared.statistics_full(), shared.base + Shared::statistics_offset, first,
                                rows_below(end, first, Config::rows), Config::rows};
      epilogue.visit_statistics(statistics);
    }
    if constexpr (Epilogue::row_tensors > 0) {
      int free = 0;  // stages that all matmuls with are done
#pragma unroll 1
      for (int slot = 0; slot < slots * Config::teams; ++slot) {
        for (; free * Shared::stage_bytes < (slot + 1) * slot_bytes; ++free)
          barrier::wait_patiently(shared.empty(free), Shared::last_phase(free) & 1);
        copy(slot % Config::teams, slot / Config::teams);
      }
    }
  }
};

// The side that reads, as LoadedOperands.
template <class Config, class Epilogue>
class PooledOperands {
  using Pool = RowPool<Config, Epilogue>;
  using Chunks = typename Pool::Chunks;
  using Shared = typename Pool::Shared;

 public:
  // `memory`: the start of shared memory.
  __device__ __forceinline__ PooledOperands(const RowPool<Config, Epilogue>& pool,
                                            const unsigned char* memory, const RowThread<Config>& thread)
      : pool_(pool), memory_(memory), thread_(thread), staged_(pool.epilogue) {
    if constexpr (Epilogue::row_statistics > 0) {
      FindStatistics statistics{memory + Shared::statistics_offset, pool.first, Config::rows};
      staged_.visit_statistics(statistics);
      barrier::wait_patiently(pool.shared.statistics_full(), 0);
    }
  }

  // The chunk's operands; `whole`: all of its rows are there.
  template <bool whole>
  __device__ __forceinline__ void take(int chunk, typename Epilogue::Operands (&operands)[Chunks::steps]) {
    if constexpr (Epilogue::row_tensors > 0) {
      const int slot = Pool::slot(thread_.team, chunk);
      barrier::wait(pool_.shared.slot_full(slot), chunk / Pool::slots);
      FindRows rows{memory_ + slot * Pool::slot_bytes, pool_.row(thread_.team, chunk), Chunks::rows};
      staged_.visit_rows(rows);
    }
#pragma unroll
    for (int i = 0; i < Chunks::steps; ++i) {
      const std::int64_t row = pool_.first + thread_.row(chunk * Chunks::steps + i);
      if (whole || row < pool_.end) operands[i] = staged_.load(row, thread_.column);
    }
  }

  // All threads of the team have taken the chunk.
  __device__ __forceinline__ void release(int chunk) const {
    if constexpr (Epilogue::row_tensors > 0 && Pool::slots < Chunks::count) {
      if (chunk + Pool::slots < Chunks::count && thread_.leads()) {
        if (ptx::elect()) pool_.copy(thread_.team, chunk + Pool::slots);
      }
    }
  }

 private:
  // Between passes the team meets, and slots of the pool can be filled again.
  static_assert(Epilogue::passes > 1 || Epilogue::row_tensors == 0);

  const RowPool<Config, Epilogue>& pool_;
  const unsigned char* const memory_;
  const RowThread<Config>& thread_;
  Epilogue staged_;  // whose pointers lead to shared memory
};

}  // namespace hydrac::cuda
