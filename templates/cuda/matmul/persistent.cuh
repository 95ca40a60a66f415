// A matmul whose blocks stay: two consumer warpgroups take turns in the mainloop. Only the device knows how
// many rows experts have: the grid is fixed, and blocks end where the rows do.
#pragma once
#include "cuda/matmul/epilogue.cuh"
#include "cuda/matmul/mainloop.cuh"
#include "cuda/matmul/operands.cuh"

namespace hydrac::cuda {

// By one consumer: every second tile of the block. `memory`: the start of shared memory.
template <class Config, class Epilogue>
__device__ __forceinline__ void multiply_tiles(const MatmulShared<Config>& shared, unsigned char* memory,
                                               const TileScheduler<Config>& tiles, int consumer,
                                               std::int64_t rows, Epilogue& epilogue) {
  constexpr int steps = Config::steps;
  const std::uint32_t results = shared.results(consumer);
  const MatmulOperands<Config> operands{shared, 0};
  PipelineStage<Config::tile.stages> stage;
  if (consumer == 1) {
    stage.skip(steps);
    give_turn(0);
  }
#pragma unroll 1
  for (int tile = tiles.first() + consumer * tiles.step(); tile < tiles.count(); tile += 2 * tiles.step()) {
    // The epilogue's first loads are under way while the matmuls are computed.
    MatmulRows<Config, Epilogue> epilogue_rows(results, consumer, rows, tiles.place(tile), epilogue);
    MatmulSums<Config> sums;
    wait_turn(consumer);
    sums.start(operands, stage, steps);
    stage.skip(steps);
    if (tile + tiles.step() < tiles.count()) give_turn(1 - consumer);
    sums.finish(operands, steps);
    // One half of the rows after the other: shared memory has room for half of the results, and the epilogue
    // gets the registers of sums that are stored.
    sync_consumer(consumer);  // the results of the tile before have been read
    sums.store_transposed(results, 0, 2);
    sync_consumer(consumer);
    epilogue_rows.run(0);
    sync_consumer(consumer);
    sums.store_transposed(results, 1, 2);
    sync_consumer(consumer);
    epilogue_rows.run(1);
    if constexpr (Epilogue::sums > 0) {
      epilogue_rows.store_sums(reinterpret_cast<float*>(memory + (results - shared.base)));
    }
  }
}

template <class Config, class Epilogue>
__device__ __forceinline__ void persistent_matmul(const MatmulMaps& maps, std::int64_t rows,
                                                  Epilogue& epilogue, unsigned char* memory) {
  const MatmulShared<Config> shared{ptx::shared_address(memory)};
  const int rank = static_cast<int>(cluster_rank());
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    prefetch_map(maps.a);
    prefetch_map(maps.b);
    if constexpr (Config::has_tail) {
      prefetch_map(maps.tail_a);
      prefetch_map(maps.tail_b);
    }
    shared.create_barriers();
  }
  cluster_sync();  // both blocks' barriers are initialized before either copies to the other
  wait_for_previous_kernel();
  launch_next_kernel();
  if constexpr (Config::experts > 0) rows = maps.offsets[Config::experts];

  const TileScheduler<Config> tiles(rows, rank);
  if (warpgroup < Config::tile.consumers()) {
    ptx::grow_registers<consumer_registers(Config::tile.consumers())>();
    multiply_tiles(shared, memory, tiles, warpgroup, rows, epilogue);
  } else {
    ptx::shrink_registers<kProducerRegisters>();
    if (threadIdx.x == Config::tile.consumers() * 128) copy_tiles(shared, tiles, maps, rank);
    __syncwarp();  // the warp has converged before it arrives
  }
  // A block must stay until its neighbour's copies and arrivals have reached it.
  cluster_sync();
}

}  // namespace hydrac::cuda
