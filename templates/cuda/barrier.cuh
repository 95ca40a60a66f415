// Barriers between warps of a block or a cluster that do different work (sm_90): one small function for each
// PTX instruction. An mbarrier is known by its 32-bit address in shared memory, a block's named barrier
// ("bar") by a number.
#pragma once
#include "cuda/types.cuh"

namespace hydrac::barrier {

constexpr int kBytes = 8;  // of shared memory

// A phase of the barrier ends after `count` arrivals and the bytes that were announced.
__device__ __forceinline__ void init(std::uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Makes barriers that this thread initialized visible to the cluster and to TMA; cluster_sync or
// __syncthreads must follow.
__device__ __forceinline__ void publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier that lies at the same place in block `rank` of the cluster.
__device__ __forceinline__ void arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Arrives and announces bytes that copies will bring.
__device__ __forceinline__ void expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives, and the phase waits until `bytes`, a multiple of 16, are copied to shared memory.
__device__ __forceinline__ void arrive_with_copy(std::uint32_t barrier, std::uint32_t to, const void* from,
                                                 int bytes) {
  expect(barrier, bytes);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Returns when the phase of that number has ended. Phases count from 0, the waiter is never two behind, and
// -1 has ended from the start.
__device__ __forceinline__ void wait(std::uint32_t barrier, int phase) {
  asm volatile(
      "{\n.reg .pred ended;\n"
      "again:\nmbarrier.try_wait.parity.shared.b64 ended, [%0], %1;\n"
      "@!ended bra again;\n}" ::"r"(barrier),
      "r"(phase & 1)
      : "memory");
}

// Nanoseconds that a waiting thread may sleep before it looks again by itself.
constexpr int kPatience = 10'000'000;

// The same for the phase of this parity; for a new barrier, the phase before the first (parity 1) has ended.
// For long waits.
__device__ __forceinline__ void wait_patiently(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nwaiting:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1, %2;\n"
      "@!done bra waiting;\n}" ::"r"(barrier),
      "r"(parity), "r"(kPatience)
      : "memory");
}

// PTX bar.sync and bar.arrive on the block's named barriers, 1 to 15. `threads`, whole warps, take part;
// threads that only arrive do not wait.
template <int threads>
__device__ __forceinline__ void block_sync(int name) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(threads) : "memory");
}
template <int threads>
__device__ __forceinline__ void block_arrive(int name) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "n"(threads) : "memory");
}

}  // namespace hydrac::barrier
