// Hooks of the runtime around a launch of an emitted kernel. Declared without headers of the standard
// library: nvcc would take a second of every file of kernels to read them.
#pragma once

struct CUstream_st;

namespace hydrac::runtime::cuda {

// before_call() (runtime/program/after_call.h). `overlaps`: the kernel itself waits for earlier ones. Returns
// whether it may be launched while they run: follows_kernels().
bool before_launch(CUstream_st* stream, bool overlaps);

// after_call(). `error`: the reason why CUDA refused the launch, which becomes a RunError with the kernel's
// name; null if it did not.
void after_launch(const char* kernel, const char* error, CUstream_st* stream);

}  // namespace hydrac::runtime::cuda
