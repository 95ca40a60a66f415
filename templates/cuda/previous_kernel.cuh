// Kernels that overlap: from sm_90 on a kernel may be launched while the one before it still runs
// (programmatic dependent launch), so that its blocks stand ready when that one ends. It then has to wait for
// it itself.
//
// Kernels that wait so take no const __restrict__ pointers: the compiler could load through one before the
// wait. Where the kernel just before on the stream does not write a tensor, its pointer may have it.
#pragma once

namespace hydrac {

// Returns when the kernel before this one has ended and what it wrote can be read. All threads of a kernel
// call it before they touch global memory, so that a kernel which has ended says that all before it have.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel behind this one be launched as soon as all blocks of this one run: its blocks take the room
// that these leave, and wait there.
__device__ inline void launch_next_kernel() {
#if defined(__CUDA_ARCH__)
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace hydrac
