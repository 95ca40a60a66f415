// The pipeline of a block of matmul kernels: stages of operands in shared memory, which one producer thread
// fills and consumer warpgroups multiply.
#pragma once
#include "cuda/barrier.cuh"

namespace hydrac::cuda {

// Which stage is next, and the parity of its current phase.
template <int stages>
struct PipelineStage {
  int index = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index == stages) index = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(int count) {
    index += count % stages;
    parity ^= count / stages % 2;
    if (index >= stages) index -= stages, parity ^= 1;
  }
};

// Two mbarriers a stage, at `barriers` in shared memory. Full: the copies have arrived. Empty: all
// warpgroups that read the stage, in every block whose copies go there too, are done.
template <int stages>
struct Pipeline {
  static constexpr int bytes = 2 * stages * barrier::kBytes;
  std::uint32_t barriers;

  __device__ __forceinline__ std::uint32_t full(int stage) const {
    return barriers + stage * barrier::kBytes;
  }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }

  // By one thread, which then publishes them. `readers`: warpgroups that release a stage.
  __device__ __forceinline__ void create_barriers(int readers) const {
    for (int stage = 0; stage < stages; ++stage) {
      barrier::init(full(stage), 1);
      barrier::init(empty(stage), readers);
    }
  }

  // The producer waits until the stage is empty, and announces what its copies will bring.
  __device__ __forceinline__ void begin_fill(const PipelineStage<stages>& stage, int fill_bytes) const {
    barrier::wait_patiently(empty(stage.index), stage.parity ^ 1);
    barrier::expect(full(stage.index), fill_bytes);
  }
  __device__ __forceinline__ void wait_full(const PipelineStage<stages>& stage) const {
    barrier::wait_patiently(full(stage.index), stage.parity);
  }
};

// Two consumers that take turns at the stages. A parity tells a stage's phase only from the one before: who
// waits for a stage must know that the other consumer has begun all matmuls before it.
__device__ __forceinline__ void wait_turn(int consumer) {
  barrier::block_sync<256>(3 + consumer);  // the other consumer has given it
}
__device__ __forceinline__ void give_turn(int consumer) {
  barrier::block_arrive<256>(3 + consumer);
}

}  // namespace hydrac::cuda
