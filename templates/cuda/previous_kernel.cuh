// Programmatic dependent launch: from sm_90 on a kernel may be launched while the previous one still runs, so
// that its blocks are ready when that one ends. The kernel must then wait itself.
//
// Kernels that wait so take no const __restrict__ pointers, because the compiler could load through one
// before the wait. A pointer to a tensor that the previous kernel on the stream does not write may have it.
#pragma once

namespace hydrac {

// Returns when the previous kernel has ended and its results are visible. All threads of a kernel call it
// before they touch global memory, so a finished kernel implies that all earlier ones finished.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel launch as soon as all blocks of this one run: its blocks take the room that these
// leave, and wait there.
__device__ inline void launch_next_kernel() {
#if defined(__CUDA_ARCH__)
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace hydrac
