// Tests the kernel of weight gradients on a GPU: against float64,
// that all of each gradient is written and nothing past it, that every run gives the same bits, also while
// another kernel holds half of the multiprocessors, and that launches which overlap give what launches one
// after the other give. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/weight_gradients_test.cu -o weight_gradients_test
#include "matmul_checks.cuh"
#include "weight_gradients_device.cuh"

namespace hydrac::test {
namespace {

using Tile = cuda::WeightGradientTile;
using Problem = cuda::WeightGradientsProblem;

// |d_w - before - d_y^T x| / |d_y^T x|, in float64.
template <class T, Problem problem>
double gradient_error(const WeightGradientTensors<T, problem>& tensors, const std::vector<float>& found,
                      const std::vector<float>& before) {
  double difference = 0, size = 0;
  std::size_t at = 0;
  for (int g = 0; g < problem.count; ++g) {
    const std::int64_t m = problem.m[g], n = problem.n[g];
    std::vector<double> wanted(m * n, 0.0), x(n);
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      for (std::int64_t j = 0; j < n; ++j) x[j] = to_float(tensors.x[g][r * n + j]);
      for (std::int64_t i = 0; i < m; ++i) {
        const double y = to_float(tensors.d_y[g][r * m + i]);
        for (std::int64_t j = 0; j < n; ++j) wanted[i * n + j] += y * x[j];
      }
    }
    for (std::int64_t i = 0; i < m * n; ++i, ++at) {
      const double d = static_cast<double>(found[at]) - before[at] - wanted[i];
      difference += d * d, size += wanted[i] * wanted[i];
    }
  }
  return std::sqrt(difference / size);
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class T, Problem problem, Tile tile, bool accumulate>
void check_case() {
  using Kernel = WeightGradientsKernel<T, problem, tile, accumulate>;
  WeightGradientTensors<T, problem> tensors(1);
  const Kernel launch = tensors.template kernel<Kernel>();
  std::size_t elements = 0;
  for (int i = 0; i < problem.count; ++i) elements += problem.m[i] * problem.n[i];
  std::vector<float> before(elements, 0.0f), first;
  if (accumulate) before = random_values<float>(elements, 99);
  bool intact = true, repeatable = true;
  for (int run = 0; run < 3; ++run) {
    for (DeviceArray<float>& one : tensors.d_w) one.poison();
    if (accumulate) tensors.write(before);
    launch();
    check(cudaDeviceSynchronize(), "weight_gradients");
    bool whole;
    const std::vector<float> found = tensors.read(whole);
    intact = intact && whole;
    if (run == 0) first = found;
    repeatable = repeatable && same(first, found);
  }
  const double error = gradient_error<T, problem>(tensors, first, before);
  const bool passed = error < 2e-6 && repeatable && intact;
  failures += !passed;
  std::printf("%s %-4s %lld rows, %d gradients, %lld x %lld first, %u blocks%s: error %.1e%s%s\n",
              passed ? "ok  " : "FAIL", __is_same(T, bf16) ? "bf16" : "f16",
              static_cast<long long>(problem.rows), problem.count, static_cast<long long>(problem.m[0]),
              static_cast<long long>(problem.n[0]), Kernel::kLaunch.grid, accumulate ? ", added" : "", error,
              repeatable ? "" : " NOT REPEATABLE", intact ? "" : " WROTE PAST THE END");
  std::fflush(stdout);
}

constexpr Problem problem_of(bool is_bf16, std::int64_t rows, std::initializer_list<std::int64_t> sizes) {
  Problem p{cuda::kHopper, is_bf16, rows, 0, {}, {}};
  for (auto at = sizes.begin(); at != sizes.end(); at += 2, ++p.count)
    p.m[p.count] = at[0], p.n[p.count] = at[1];
  return p;
}

template <class T, Tile tile>
void check_tile() {
  constexpr bool bf = __is_same(T, bf16);
  std::printf("%d x %d, %d stages, split %d\n", tile.rows(), tile.columns, tile.stages, tile.split);
  check_case<T, problem_of(bf, 64 * tile.split - 63, {8, 8}), tile, false>();
  check_case<T, problem_of(bf, 700, {72, 200}), tile, false>();
  check_case<T, problem_of(bf, 700, {72, 200, 264, 136, 8, 400}), tile, true>();
  check_case<T, problem_of(bf, 1024, {192, 384, 384, 192, 128, 128, 256, 128}), tile, false>();
  check_case<T, problem_of(bf, 200, {1000, 2000, 3000, 1000}), tile, true>();
}

// Holds a multiprocessor for each block.
__global__ void hold(long long clocks) {
  const long long start = clock64();
  while (clock64() - start < clocks) __nanosleep(1000);
}

// Again and again: launches that overlap, each adding to what the one before
// wrote, alone and beside a kernel that holds half of the multiprocessors.
template <Tile tile>
void check_under_load() {
  constexpr Problem problem = problem_of(true, 2048, {1024, 256, 256, 1024, 768, 256, 256, 256});
  using Kernel = WeightGradientsKernel<bf16, problem, tile, true>;
  constexpr int times = 20, runs = 30, held_bytes = 200 << 10;
  WeightGradientTensors<bf16, problem> tensors(5);
  const Kernel launch = tensors.template kernel<Kernel>();
  check(cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, held_bytes), "hold");
  cudaStream_t stream, other;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream");
  std::vector<float> expected;
  int different = 0;
  for (int run = 0; run < 1 + runs; ++run) {
    for (DeviceArray<float>& one : tensors.d_w)
      check(cudaMemset(one.get(), 0, one.size() * sizeof(float)), "memset");
    check(cudaDeviceSynchronize(), "load");
    if (run % 2 == 0 && run > 0) hold<<<66, 128, held_bytes, other>>>(400000);
    for (int i = 0; i < times; ++i) {
      launch(stream, run > 0);
      if (run == 0) check(cudaDeviceSynchronize(), "load");
    }
    check(cudaDeviceSynchronize(), "load");
    bool intact;
    const std::vector<float> found = tensors.read(intact);
    if (run == 0) expected = found;
    different += !same(expected, found) || !intact;
  }
  failures += different > 0;
  std::printf("%s %d launches that overlap, beside another kernel: %d of %d differ\n",
              different > 0 ? "FAIL" : "ok  ", times, different, runs);
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac;
  using namespace hydrac::test;
  if (!has_hopper()) return 0;
  check_tile<bf16, Tile{3, 192, 4, 2}>();
  check_tile<bf16, Tile{1, 128, 8, 1}>();
  check_tile<bf16, Tile{2, 128, 6, 1}>();
  check_tile<bf16, Tile{2, 128, 6, 2}>();
  check_tile<bf16, Tile{2, 128, 4, 4}>();
  check_tile<f16, Tile{2, 128, 6, 2}>();
  check_tile<f16, Tile{3, 192, 4, 1}>();
  check_under_load<Tile{1, 128, 8, 1}>();
  check_under_load<Tile{2, 128, 6, 2}>();
  check_under_load<Tile{3, 192, 4, 2}>();
  return print_outcome();
}
