// Hooks of the runtime around a launch of an emitted kernel. Declared without headers of the standard
// library: nvcc would take a second of every file of kernels to read them.
#pragma once

struct CUstream_st;

namespace hydrac::runtime::cuda {

// before_call() (runtime/program/after_call.h). `overlaps`: the kernel waits itself for those before it.
// Whether it does and may be launched while they run: follows_kernels().
bool before_launch(CUstream_st* stream, bool overlaps);

// after_call(). `error`: why CUDA refused to launch the kernel, which becomes a RunError that names it; null
// where it did not.
void after_launch(const char* kernel, const char* error, CUstream_st* stream);

}  // namespace hydrac::runtime::cuda
