// Barriers in shared memory (mbarrier) and the copy engine that completes on them (sm_90), for one block or a
// cluster of them. Addresses are shared memory's own, of 32 bits. See "mbarrier" and "cp.async.bulk.tensor"
// in the PTX manual.
#pragma once
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// `arrivals` complete a phase, together with all bytes that were announced in it.
__device__ __forceinline__ void barrier_create(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes barriers that this thread created visible to the cluster and the copy engine, behind cluster_sync or
// __syncthreads.
__device__ __forceinline__ void barriers_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives at the barrier that lies at the same place in block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Arrives and announces bytes that copies will bring.
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Nanoseconds that a waiting thread may sleep before it looks again by itself.
constexpr int kPatience = 10'000'000;

// Returns when the phase of this parity has ended; of a new barrier, the phase before the first (1) has.
// What threads of the cluster wrote before they arrived can then be read.
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nwaiting:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, %2;\n"
      "@!done bra waiting;\n}" ::"r"(barrier),
      "r"(parity), "r"(kPatience)
      : "memory");
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Copies the map's box at element (x, y), x along the contiguous dimension; what lies outside of the matrix
// arrives as zeros.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, int x, int y,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same to this place, and for this barrier, of every block of the cluster whose bit is set in `blocks`.
__device__ __forceinline__ void copy_box_to(std::uint16_t blocks, std::uint32_t to, const TensorMap& map,
                                            int x, int y, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace hydrac::cuda
