// Tests the kernel for small matmuls on a GPU as matmul_test.cu does the other one, and that launches which
// overlap, each reading what the one before wrote, give what launches one after the other give. Needs a chip
// of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/small_matmul_test.cu -o small_matmul_test
#include "matmul_checks.cuh"
#include "matmul_epilogues.cuh"
#include "small_matmul_device.cuh"

namespace hydrac::test {
namespace {

using Tile = cuda::SmallMatmulTile;

template <Tile tile>
struct With {
  template <class T, cuda::MatmulProblem problem, class Epilogue>
  using Kernel = SmallMatmulKernel<T, problem, tile, Epilogue>;
};

// k that fits in the stages and k that goes around.
template <class T, Tile tile>
void check_tile() {
  constexpr int columns = tile.columns();
  std::printf("%d panels, %d stages\n", tile.panels, tile.stages);
  check_case<T, 77, columns - 40, 72, true, false, With<tile>::template Kernel>();
  check_case<T, 500, columns + 40, 64, false, false, With<tile>::template Kernel>();
  check_case<T, 1, columns, 264, true, false, With<tile>::template Kernel>();
  check_case<T, 300, 2 * columns, 256, false, false, With<tile>::template Kernel>();
  check_case<T, 300, 2 * columns, 1104, true, false, With<tile>::template Kernel>();
  check_case<T, 300, 2 * columns, 1104, false, false, With<tile>::template Kernel>();
}

template <class T>
void check_tiles() {
  check_tile<T, Tile{1, 4}>();
  check_tile<T, Tile{1, 12}>();
  check_tile<T, Tile{2, 3}>();
  check_tile<T, Tile{3, 4}>();
  check_tile<T, Tile{4, 4}>();
}

// x = y w and y = x w again and again.
template <bool b_transposed, Tile tile>
void check_chain(int m) {
  constexpr int rows = 2048, n = 256, times = 40;
  constexpr cuda::MatmulProblem problem{cuda::kHopper, true, b_transposed, rows, n, n, false, 0};
  const auto start = random_values<bf16>(std::size_t{rows} * n, 11);
  auto weights = random_values<bf16>(std::size_t{n} * n, 12);
  for (bf16& weight : weights) weight = from_float<bf16>(to_float(weight) / 16.0f);
  DeviceArray<bf16> w(weights), x(start), y(start);
  using Kernel = SmallMatmulKernel<bf16, problem, tile, Bare<bf16, n>>;
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
  check_tiles<bf16>();
  check_tiles<f16>();
  check_chain<true, Tile{1, 4}>(50);
  check_chain<false, Tile{1, 4}>(50);
  check_chain<false, Tile{2, 3}>(50);
  return print_outcome();
}
