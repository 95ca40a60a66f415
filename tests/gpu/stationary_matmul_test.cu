// Tests the kernel of matmuls with b in shared memory on a GPU: the matmuls against float64, what the
// epilogue makes of them bit by bit, that all of each output is written and nothing past it, that a second
// run gives the same bits, and that launches which overlap, each reading what the one before wrote, give what
// launches one after the other give. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/stationary_matmul_test.cu -o stationary_matmul_test
#include "elementwise_epilogues.cuh"
#include "matmul_checks.cuh"
#include "stationary_matmul_device.cuh"

namespace hydrac::test {
namespace {

// c, and c + bias.
template <class T>
struct KeepAndAddBias : ElementwiseAddBias<T> {
  static constexpr int outputs = 2;
  struct Outputs {
    Vector<T, 8> c, y;
  };
  const TensorMap* matrices[outputs];

  __device__ Outputs operator()(const Vector<T, 8>& values) {
    return {values, ElementwiseAddBias<T>::operator()(values).y};
  }
};

template <class T, int m, int n, int k, bool b_transposed>
void check_size() {
  constexpr cuda::MatmulProblem problem{
      cuda::kHopper, __is_same(T, bf16), b_transposed, m, n, k, false, 0, 2};
  const auto a = random_values<T>(static_cast<std::size_t>(m) * k, 3 * m + n);
  auto b = random_values<T>(static_cast<std::size_t>(n) * k, 5 * m + k);
  for (T& weight : b) weight = from_float<T>(to_float(weight) / std::sqrt(static_cast<float>(k)));
  const auto bias = random_values<T>(n, 8);
  DeviceArray<T> device_a(a), device_b(b), device_bias(bias);
  DeviceArray<T> c(static_cast<std::size_t>(m) * n), y(static_cast<std::size_t>(m) * n);
  KeepAndAddBias<T> epilogue{};
  epilogue.bias = device_bias.get();
  const StationaryMatmulKernel<T, problem, KeepAndAddBias<T>> launch(device_a.get(), device_b.get(), epilogue,
                                                                     {c.get(), y.get()});
  std::vector<T> cs[2], ys[2];
  bool intact = true;
  for (int run = 0; run < 2; ++run) {
    c.poison(), y.poison();
    launch();
    check(cudaDeviceSynchronize(), "matmul");
    bool whole[2];
    cs[run] = c.read(whole[0]), ys[run] = y.read(whole[1]);
    intact = intact && whole[0] && whole[1];
  }
  const auto same = [](const std::vector<T>& first, const std::vector<T>& second) {
    return std::memcmp(first.data(), second.data(), first.size() * sizeof(T)) == 0;
  };
  const bool repeatable = same(cs[0], cs[1]) && same(ys[0], ys[1]);
  const double error = matmul_error<T, n, k, b_transposed>(a, b, cs[0], m);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < cs[0].size(); ++i)
    wrong += from_float<T>(to_float(cs[0][i]) + to_float(bias[i % n])).bits != ys[0][i].bits;
  // What rounding the matmuls explains, with room.
  const bool passed = error < (__is_same(T, bf16) ? 2.5e-3 : 3.5e-4) && wrong == 0 && repeatable && intact;
  failures += !passed;
  std::printf("%s %-4s m=%-4d n=%-4d k=%-3d %s matmul %.1e wrong outputs %zu%s%s\n", passed ? "ok  " : "FAIL",
              __is_same(T, bf16) ? "bf16" : "f16", m, n, k, b_transposed ? "[n,k]" : "[k,n]", error, wrong,
              repeatable ? "" : " NOT REPEATABLE", intact ? "" : " WROTE PAST THE END");
  std::fflush(stdout);
}

template <class T, bool b_transposed>
void check_sizes() {
  check_size<T, 1, 208, 72, b_transposed>();
  check_size<T, 77, 208, 8, b_transposed>();
  check_size<T, 300, 496, 136, b_transposed>();
  check_size<T, 700, 1024, 256, b_transposed>();
  check_size<T, 1500, 1536, 384, b_transposed>();
  check_size<T, 3000, 4232, 64, b_transposed>();  // several tiles a warpgroup
}

// x = y w + bias and y = x w + bias again and again.
template <bool b_transposed>
void check_chain(int chains) {
  constexpr int rows = 4096, n = 256, times = 40;
  constexpr cuda::MatmulProblem problem{cuda::kHopper, true, b_transposed, rows, n, n, false, 0, 1};
  const auto start = random_values<bf16>(std::size_t{rows} * n, 11);
  auto weights = random_values<bf16>(std::size_t{n} * n, 12);
  for (bf16& weight : weights) weight = from_float<bf16>(to_float(weight) / 16.0f);
  DeviceArray<bf16> w(weights), x(start), y(start), bias(random_values<bf16>(n, 13));
  using Kernel = StationaryMatmulKernel<bf16, problem, ElementwiseAddBias<bf16>>;
  const Kernel forth(x.get(), w.get(), {.bias = bias.get()}, {y.get()}),
      back(y.get(), w.get(), {.bias = bias.get()}, {x.get()});
  const int different = differing_chains(x, start, forth, back, times, chains);
  failures += different > 0;
  std::printf("%s chains of %d overlapping matmuls: %d of %d differ\n", different > 0 ? "FAIL" : "ok  ",
              2 * times, different, chains);
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac;
  using namespace hydrac::test;
  if (!has_hopper()) return 0;
  check_sizes<bf16, true>();
  check_sizes<bf16, false>();
  check_sizes<f16, true>();
  check_sizes<f16, false>();
  check_chain<true>(50);
  check_chain<false>(50);
  return print_outcome();
}
