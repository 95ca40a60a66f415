// Barriers between warps of a block that do different work (sm_90), and what arrives at them: one small
// function for each PTX instruction.
#pragma once
#include "cuda/attention/ptx.cuh"

namespace hydrac::cuda::barrier {

constexpr int kBytes = 8;  // of shared memory

// A phase of the barrier ends after `count` arrivals and the bytes that were announced.
__device__ __forceinline__ void init(std::uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives once what this thread has begun with ptx::copy_to_shared is complete.
__device__ __forceinline__ void arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and the phase waits until `bytes`, a multiple of 16, are copied to shared memory.
__device__ __forceinline__ void arrive_with_copy(std::uint32_t barrier, std::uint32_t to, const void* from,
                                                 int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Returns when the phase of that number has ended. They count from 0, the waiter is never two behind, and -1
// has ended from the start.
__device__ __forceinline__ void wait(std::uint32_t barrier, int phase) {
  asm volatile(
      "{\n.reg .pred ended;\n"
      "again:\nmbarrier.try_wait.parity.shared.b64 ended, [%0], %1;\n"
      "@!ended bra again;\n}" ::"r"(barrier),
      "r"(phase & 1)
      : "memory");
}

// The block's own barriers, 1 to 15, for whole warps: `threads` of them meet, those that arrive do not wait.
template <int threads>
__device__ __forceinline__ void meet(int name) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(threads) : "memory");
}
template <int threads>
__device__ __forceinline__ void pass_by(int name) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "n"(threads) : "memory");
}

}  // namespace hydrac::cuda::barrier
