// TMA (sm_90): copies boxes of a matrix to the shared memory of one block, or of several of a cluster, where
// they complete on barriers of cuda/barrier.cuh, and back. Addresses are 32-bit shared memory addresses. See
// "cp.async.bulk.tensor" and "barrier.cluster" in the PTX manual.
#pragma once
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"

namespace hydrac {

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The two halves of the above, without memory ordering: for threads that only signal their arrival.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The same place in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ std::uint32_t address_in(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

__device__ __forceinline__ void store_to_cluster(std::uint32_t to, const float (&x)[4]) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
}

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Copies the map's box at element (x, y), x along the contiguous dimension; elements outside of the matrix
// become zeros.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, int x, int y,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same with the evict-first hint, for data that no block reads again soon: it leaves L2 before data that
// is still needed.
__device__ __forceinline__ void copy_box_once(std::uint32_t to, const TensorMap& map, int x, int y,
                                              std::uint32_t barrier) {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}

// Multicast: like copy_box to the same place, and on the same barrier, of every block of the cluster whose
// bit is set in `blocks`.
__device__ __forceinline__ void copy_box_to(std::uint16_t blocks, std::uint32_t to, const TensorMap& map,
                                            int x, int y, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace hydrac
