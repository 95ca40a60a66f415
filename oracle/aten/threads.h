// The process around LibTorch: threads, and what its BLAS and its OpenMP need to know before they are loaded.
#pragma once
#include <string>

namespace hydrac::oracle {

// LibTorch and the BLAS below it use this many threads.
void use_threads(int threads);

// The kernels that OpenBLAS chose ("SkylakeX"); empty when another BLAS is in use.
std::string blas_kernels();

// Starts the program anew, once, with an environment in which LibTorch is as fast as it can be: OpenBLAS gets
// the kernels for this processor when it does not know it and fell back to its oldest, and OpenMP's threads
// sleep between loops and do not take cores from OpenBLAS's. Variables that the user has set stay. Returns
// when there is nothing to change. Throws JobError when the program cannot be started.
void restart_with_fast_environment(char** argv);

}  // namespace hydrac::oracle
