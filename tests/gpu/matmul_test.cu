// Tests matmul kernels with pointwise epilogues on a GPU: the matmuls against float64, the epilogue's outputs
// bit by bit from those, its column sums, that all of each output is written and nothing past it, that a
// second run gives the same bits, that a tail gives what the matmul of both pairs side by side gives, and
// that launches which overlap, each reading what the one before wrote, give what launches one after the other
// give. Needs a chip of capability 9.0:
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

// Left columns of the matrices [rows,left] and [rows,right], then right ones.
template <class T>
std::vector<T> side_by_side(const std::vector<T>& first, const std::vector<T>& second, int rows) {
  const std::size_t left = first.size() / rows, right = second.size() / rows;
  std::vector<T> both;
  for (int r = 0; r < rows; ++r) {
    both.insert(both.end(), first.begin() + r * left, first.begin() + (r + 1) * left);
    both.insert(both.end(), second.begin() + r * right, second.begin() + (r + 1) * right);
  }
  return both;
}

// With a tail behind whole stages of k the steps are those of the matmul of [a tail_a] and [b tail_b].
template <class T, int m, int n, int k, int tail_k, bool b_transposed, bool paired>
void check_tail() {
  static_assert(k % cuda::MatmulTile::depth == 0);
  constexpr int columns = paired ? n / 2 : n;
  using Epilogue = Everything<T, n, paired>;
  constexpr cuda::MatmulProblem whole = checked_problem<T>(m, n, k + tail_k, b_transposed, paired);
  constexpr cuda::MatmulProblem problem = [] {
    cuda::MatmulProblem p = checked_problem<T>(m, n, k, b_transposed, paired);
    p.tail_k = tail_k;
    return p;
  }();
  constexpr cuda::MatmulTile tile = persistent_tile(problem);
  constexpr cuda::MatmulProblem tail = matmul_tail(problem);
  constexpr cuda::MatmulLaunch launch = matmul_launch(problem, tile);
  using Config = cuda::MatmulConfig<T, n, k, b_transposed, paired, tile, tail_k>;
  constexpr auto kernel = tail_matmul_kernel<Config, Epilogue>;
  static_assert(tile == persistent_tile(whole) && matmul_supports(problem, tile.schedule));

  const auto a = random_values<T>(std::size_t{m} * k, 3),
             tail_a = random_values<T>(std::size_t{m} * tail_k, 4),
             b = random_values<T>(std::size_t{n} * k, 5),
             tail_b = random_values<T>(std::size_t{n} * tail_k, 6);
  const auto x = random_values<T>(std::size_t{m} * columns, 7), bias = random_values<T>(columns, 8);
  DeviceArray<T> device_a(a), device_b(b), device_tail_a(tail_a), device_tail_b(tail_b), device_x(x),
      device_bias(bias), whole_a(side_by_side(a, tail_a, m)),
      whole_b(side_by_side(b, tail_b, b_transposed ? n : 1));
  DeviceArray<T> c(std::size_t{m} * n), y(x.size());
  DeviceArray<float> partials(matmul_sums_rows(problem, tile) * columns);
  const Epilogue epilogue{device_x.get(), device_bias.get(), c.get(), y.get(), {partials.get()}, {}, {}};
  std::vector<T> cs[2], ys[2];
  std::vector<float> sums[2];
  bool intact = true;
  for (const int with_tail : {0, 1}) {
    c.poison(), y.poison(), partials.poison();
    if (with_tail) {
      allow_shared_memory(kernel, launch);
      launch_matmul(kernel, launch, nullptr, false,
                    encoded(device_a.get(), matmul_map_a(problem, tile), problem.is_bf16),
                    encoded(device_b.get(), matmul_map_b(problem), problem.is_bf16),
                    encoded(device_tail_a.get(), matmul_map_a(tail, tile), problem.is_bf16),
                    encoded(device_tail_b.get(), matmul_map_b(tail), problem.is_bf16), std::int64_t{m},
                    epilogue);
    } else {
      MatmulKernel<T, whole, tile, Epilogue>(whole_a.get(), whole_b.get(), epilogue)();
    }
    check(cudaDeviceSynchronize(), "tail");
    bool whole_outputs[3];
    cs[with_tail] = c.read(whole_outputs[0]), ys[with_tail] = y.read(whole_outputs[1]);
    sums[with_tail] = partials.read(whole_outputs[2]);
    intact = intact && whole_outputs[0] && whole_outputs[1] && whole_outputs[2];
  }
  const auto same = [](const auto& pair) {
    return std::memcmp(pair[0].data(), pair[1].data(), pair[0].size() * sizeof(pair[0][0])) == 0;
  };
  const bool passed = same(cs) && same(ys) && same(sums) && intact;
  failures += !passed;
  std::printf("%s %-4s m=%-4d n=%-4d k=%d + %d %s %s\n", passed ? "ok  " : "FAIL",
              __is_same(T, bf16) ? "bf16" : "f16", m, n, k, tail_k, b_transposed ? "[n,k]" : "[k,n]",
              paired ? "paired" : "single");
  std::fflush(stdout);
}

// Less than a stage, several with one that is not whole, and more than there are.
template <class T, bool b_transposed, bool paired>
void check_tails() {
  check_tail<T, 1, 208, 64, 8, b_transposed, paired>();
  check_tail<T, 300, 368, 128, 16, b_transposed, paired>();
  check_tail<T, 3000, 3072, 256, 48, b_transposed, paired>();
  check_tail<T, 500, 400, 64, 72, b_transposed, paired>();
  check_tail<T, 300, 368, 64, 456, b_transposed, paired>();
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
  check_tails<bf16, true, false>();
  check_tails<bf16, false, false>();
  check_tails<bf16, true, true>();
  check_tails<f16, false, true>();
  check_chain<true, one_tile(1, 4)>(50);
  check_chain<false, one_tile(1, 4)>(50);
  check_chain<false, one_tile(2, 3)>(50);
  return print_outcome();
}
