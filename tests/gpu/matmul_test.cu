// Tests matmul kernels with pointwise epilogues on a GPU: the matmuls against float64, the epilogue's outputs
// bit by bit from those, its column sums, that all of each output is written and nothing past it, that a
// second run gives the same bits, and that launches which overlap, each reading what the one before wrote,
// give what launches one after the other give. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/matmul_test.cu -o matmul_test
#include "matmul_checks.cuh"
#include "matmul_epilogues.cuh"

namespace hydrac::test {
namespace {

template <class T, bool b_transposed, bool paired>
void check_sizes() {
  check_case<T, 1, 208, 72, b_transposed, paired>();
  check_case<T, 77, 208, 72, b_transposed, paired>();
  check_case<T, 300, 368, 136, b_transposed, paired>();   // three tiles across and down
  check_case<T, 3000, 3072, 72, b_transposed, paired>();  // several tiles a block
}

template <class T>
void check_layouts() {
  check_sizes<T, true, false>();
  check_sizes<T, false, false>();
  check_sizes<T, true, true>();
  check_sizes<T, false, true>();
}

// k that fits in the stages and k that goes around.
template <class T, cuda::MatmulTile tile>
void check_tile() {
  constexpr int columns = tile.columns();
  std::printf("%d panels, %d stages\n", tile.panels, tile.stages);
  check_case<T, 77, columns - 40, 72, true, false, tile>();
  check_case<T, 500, columns + 40, 64, false, false, tile>();
  check_case<T, 1, columns, 264, true, false, tile>();
  check_case<T, 300, 2 * columns, 256, false, false, tile>();
  check_case<T, 300, 2 * columns, 1104, true, false, tile>();
  check_case<T, 300, 2 * columns, 1104, false, false, tile>();
}

template <class T>
void check_tiles() {
  check_tile<T, one_tile(1, 4)>();
  check_tile<T, one_tile(1, 12)>();
  check_tile<T, one_tile(2, 3)>();
  check_tile<T, one_tile(3, 4)>();
  check_tile<T, one_tile(4, 4)>();
}

// x = y w and y = x w again and again.
template <bool b_transposed, cuda::MatmulTile tile>
void check_chain(int m) {
  constexpr int rows = 2048, n = 256, times = 40;
  constexpr cuda::MatmulProblem problem{cuda::kHopper, true, b_transposed, rows, n, n, false, 0};
  const auto start = random_values<bf16>(std::size_t{rows} * n, 11);
  auto weights = random_values<bf16>(std::size_t{n} * n, 12);
  for (bf16& weight : weights) weight = from_float<bf16>(to_float(weight) / 16.0f);
  DeviceArray<bf16> w(weights), x(start), y(start);
  using Kernel = MatmulKernel<bf16, problem, tile, Bare<bf16, n>>;
  const Kernel forth(x.get(), w.get(), {y.get()}), back(y.get(), w.get(), {x.get()});
  const int different = differing_chains(x, start, forth, back, times, m);
  failures += different > 0;
  std::printf("%s chains of %d overlapping matmuls: %d of %d differ\n", different > 0 ? "FAIL" : "ok  ",
              2 * times, different, m);
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac;
  using namespace hydrac::test;
  if (!has_hopper()) return 0;
  check_layouts<bf16>();
  check_layouts<f16>();
  check_tiles<bf16>();
  check_tiles<f16>();
  check_chain<true, one_tile(1, 4)>(50);
  check_chain<false, one_tile(1, 4)>(50);
  check_chain<false, one_tile(2, 3)>(50);
  return print_outcome();
}
