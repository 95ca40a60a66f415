// Chooses between two matrix libraries for "auto": measures the program's own matmuls, once.
#pragma once
#include <string>
#include <vector>

#include "runtime/cpu/blas_library.h"

namespace hydrac::runtime {

// Milliseconds that the library needs for all of `shapes` together, the best of some runs each. An OpenMP
// loop runs before every matmul, as in a training step, so libraries with threads of their own are measured
// with the cost of sharing the cores.
double measure_ms(BlasLibrary& library, const std::vector<Gemm>& shapes);

// The key of a choice, on one line: the libraries, the CPU, the number of threads, the shapes.
std::string choice_key(const std::vector<std::string>& libraries, const std::vector<Gemm>& shapes);

// The processor's model, as numbers of /proc/cpuinfo: libraries choose their instructions by it.
std::string cpu_model();

}  // namespace hydrac::runtime
