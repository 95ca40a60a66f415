// Tests the matmul kernel on a GPU: the matmuls against float64, the epilogue's outputs bit by bit from
// those, its column sums, that all of each output is written and nothing past it, and that a second run gives
// the same bits. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/matmul_test.cu -o matmul_test
#include "matmul_checks.cuh"

namespace hydrac::test {
namespace {

template <class T, bool b_transposed, bool paired>
void check_sizes() {
  check_case<T, 1, 208, 72, b_transposed, paired, MatmulKernel>();
  check_case<T, 77, 208, 72, b_transposed, paired, MatmulKernel>();
  check_case<T, 300, 368, 136, b_transposed, paired, MatmulKernel>();   // three tiles across and down
  check_case<T, 3000, 3072, 72, b_transposed, paired, MatmulKernel>();  // several tiles a block
}

template <class T>
void check_layouts() {
  check_sizes<T, true, false>();
  check_sizes<T, false, false>();
  check_sizes<T, true, true>();
  check_sizes<T, false, true>();
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac;
  using namespace hydrac::test;
  if (!has_hopper()) return 0;
  check_layouts<bf16>();
  check_layouts<f16>();
  return print_outcome();
}
