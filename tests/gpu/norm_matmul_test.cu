// Tests the kernel for matmuls whose epilogue sees whole rows on a GPU: layernorm and rmsnorm behind the
// matmul and a layernorm's gradient, against float64; that runs give the same bits,
// write everything and nothing else; and that launches which overlap, each reading what the one before wrote,
// give what launches one after the other give. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/norm_matmul_test.cu -o norm_matmul_test
#include "matmul_checks.cuh"
#include "norm_matmul_epilogues.cuh"

namespace hydrac::test {
namespace {

using Tile = cuda::MatmulTile;

// a [m,k], b, and c = a b in float64.
template <class T, int m, int n, int k, bool b_transposed>
struct Matmul {
  std::vector<T> a = random_values<T>(std::size_t{m} * k, 3 * m + n), b;
  std::vector<double> c = std::vector<double>(std::size_t{m} * n);

  Matmul() : b(random_values<T>(std::size_t{n} * k, 5 * m + k)) {
    for (T& weight : b) weight = from_float<T>(to_float(weight) / std::sqrt(static_cast<float>(k)));
    std::vector<double> wide(b.size());  // [k,n]
    for (int i = 0; i < k; ++i) {
      for (int j = 0; j < n; ++j) wide[i * n + j] = to_float(b_transposed ? b[j * k + i] : b[i * n + j]);
    }
    for (std::size_t r = 0; r < m; ++r) {
      double* const row = c.data() + r * n;
      for (int i = 0; i < k; ++i) {
        const double x = to_float(a[r * k + i]);
        for (int j = 0; j < n; ++j) row[j] += x * wide[i * n + j];
      }
    }
  }
};

// |got - expected| / |expected|.
template <class T>
double error_of(const std::vector<T>& got, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = to_float(got[i]) - expected[i];
    difference += off * off;
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

// The outputs of one run, in memory of the device.
class Outputs {
 public:
  template <class T>
  T* add(std::size_t size) {
    arrays_.push_back(DeviceArray<unsigned char>(size * sizeof(T)));
    return reinterpret_cast<T*>(arrays_.back().get());
  }
  void poison() {
    for (auto& array : arrays_) array.poison();
  }
  std::vector<std::vector<unsigned char>> read(bool& intact) const {
    std::vector<std::vector<unsigned char>> all;
    for (const auto& array : arrays_) {
      bool whole;
      all.push_back(array.read(whole));
      intact = intact && whole;
    }
    return all;
  }

 private:
  std::vector<DeviceArray<unsigned char>> arrays_;
};

template <class T>
std::vector<T> values_of(const std::vector<unsigned char>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Runs twice; the outputs, whether both are the same and nothing else was written.
template <class Launch>
std::vector<std::vector<unsigned char>> run_twice(const Launch& launch, Outputs& outputs, bool& sound) {
  std::vector<std::vector<unsigned char>> runs[2];
  for (auto& run : runs) {
    outputs.poison();
    launch();
    check(cudaDeviceSynchronize(), "matmul");
    run = outputs.read(sound);
  }
  sound = sound && runs[0] == runs[1];
  return runs[0];
}

template <class T>
constexpr double kTolerance = __is_same(T, bf16) ? 4e-3 : 6e-4;  // rounds the matmul and the result

void report(const char* what, bool passed, const Tile& tile, int m, int n, int k, bool b_transposed) {
  failures += !passed;
  std::printf("%s %s m=%d n=%d k=%d %s: rows %d, %d panels, %d blocks, stages %d", passed ? "ok  " : "FAIL",
              what, m, n, k, b_transposed ? "[n,k]" : "[k,n]", tile.rows, tile.panels, tile.cluster,
              tile.stages);
}

// `Norm` is AddLayernorm or AddRmsnorm.
template <template <class, class, int> class Norm, class T, class R, int m, int n, int k, bool b_transposed,
          Tile tile>
void check_forward() {
  using Epilogue = Norm<T, R, n>;
  constexpr bool centers = Epilogue::passes == 3;
  constexpr cuda::MatmulProblem problem{cuda::kHopper, __is_same(T, bf16), b_transposed, m, n, k, false, 0};
  const Matmul<T, m, n, k, b_transposed> matmul;
  const auto bias = random_values<T>(n, 8);
  const auto residual = random_values<R>(std::size_t{m} * n, 7);
  const auto weight = random_values<float>(n, 9), shift = random_values<float>(n, 10);
  DeviceArray<T> a(matmul.a), b(matmul.b), device_bias(bias);
  DeviceArray<R> device_residual(residual);
  DeviceArray<float> device_weight(weight), device_shift(shift);
  Outputs outputs;
  const NormForward<T, R> t{device_bias.get(),
                            device_residual.get(),
                            device_weight.get(),
                            device_shift.get(),
                            outputs.add<R>(std::size_t{m} * n),
                            outputs.add<T>(std::size_t{m} * n),
                            outputs.add<float>(m),
                            outputs.add<float>(m)};
  bool sound = true;
  const auto out =
      run_twice(MatmulKernel<T, problem, tile, Epilogue>(a.get(), b.get(), Epilogue{t}), outputs, sound);

  const auto sums = values_of<R>(out[0]);
  std::vector<double> sum(std::size_t{m} * n), normed(sum.size()), means(m), rstds(m);
  for (int r = 0; r < m; ++r) {
    double mean = 0, variance = 0;
    for (int j = 0; j < n; ++j) {
      const std::size_t at = static_cast<std::size_t>(r) * n + j;
      sum[at] = matmul.c[at] + to_float(residual[at]) + (centers ? to_float(bias[j]) : 0.0f);
      if (centers) mean += to_float(sums[at]) / double{n};
    }
    for (int j = 0; j < n; ++j) {
      const double centered = to_float(sums[static_cast<std::size_t>(r) * n + j]) - mean;
      variance += centered * centered / n;
    }
    means[r] = mean, rstds[r] = 1 / std::sqrt(variance + double{kNormEpsilon});
    for (int j = 0; j < n; ++j) {
      const std::size_t at = static_cast<std::size_t>(r) * n + j;
      normed[at] = (to_float(sums[at]) - mean) * rstds[r] * weight[j] + (centers ? shift[j] : 0.0f);
    }
  }
  const double errors[] = {error_of(sums, sum), error_of(values_of<T>(out[1]), normed),
                           centers ? error_of(values_of<float>(out[2]), means) : 0,
                           error_of(values_of<float>(out[3]), rstds)};
  report(
      centers ? "layernorm" : "rmsnorm",
      sound && errors[0] < kTolerance<T> && errors[1] < kTolerance<T> && errors[2] < 1e-5 && errors[3] < 1e-5,
      tile, m, n, k, b_transposed);
  std::printf(" sum %.1e normed %.1e mean %.1e rstd %.1e%s\n", errors[0], errors[1], errors[2], errors[3],
              sound ? "" : " NOT REPEATABLE or out of bounds");
  std::fflush(stdout);
}

template <class T, class R, int m, int n, int k, bool b_transposed, Tile tile>
void check_backward() {
  using Epilogue = LayernormBackwardAdd<T, R, n>;
  constexpr cuda::MatmulProblem problem{cuda::kHopper, __is_same(T, bf16), b_transposed, m, n, k, false, 3};
  using Kernel = MatmulKernel<T, problem, tile, Epilogue>;
  const Matmul<T, m, n, k, b_transposed> matmul;
  const auto x = random_values<R>(std::size_t{m} * n, 7),
             d_residual = random_values<R>(std::size_t{m} * n, 11);
  const auto weight = random_values<float>(n, 9), mean = random_values<float>(m, 10);
  auto rstd = random_values<float>(m, 12);
  for (float& one : rstd) one = 0.5f + std::fabs(one);
  DeviceArray<T> a(matmul.a), b(matmul.b);
  DeviceArray<R> device_x(x), device_d_residual(d_residual);
  DeviceArray<float> device_weight(weight), device_mean(mean), device_rstd(rstd);
  Outputs outputs;
  const std::size_t size = std::size_t{m} * n;
  const NormBackward<T, R> t{device_x.get(),      device_weight.get(),     device_mean.get(),
                             device_rstd.get(),   device_d_residual.get(), outputs.add<R>(size),
                             outputs.add<T>(size)};
  float* const partials = outputs.add<float>(Kernel::kSumsRows * 3 * n);
  bool sound = true;
  const auto out = run_twice(
      Kernel(a.get(), b.get(), {t, {partials, partials + n, partials + 2 * n}, {}, {}}), outputs, sound);

  const auto got = values_of<R>(out[0]);
  std::vector<double> d_sum(size), sums[3];
  for (auto& sum : sums) sum.resize(n);
  for (int r = 0; r < m; ++r) {
    double mean_g = 0, mean_g_xhat = 0;
    const auto xhat = [&](int j) {
      return (to_float(x[static_cast<std::size_t>(r) * n + j]) - double{mean[r]}) * rstd[r];
    };
    for (int j = 0; j < n; ++j) {
      const double d = matmul.c[static_cast<std::size_t>(r) * n + j];
      mean_g += d * weight[j] / n, mean_g_xhat += d * weight[j] * xhat(j) / n;
      sums[0][j] += d * xhat(j), sums[1][j] += d;
    }
    for (int j = 0; j < n; ++j) {
      const std::size_t at = static_cast<std::size_t>(r) * n + j;
      d_sum[at] =
          to_float(d_residual[at]) + rstd[r] * (matmul.c[at] * weight[j] - mean_g - xhat(j) * mean_g_xhat);
      sums[2][j] += to_float(got[at]);
    }
  }
  double errors[5] = {error_of(got, d_sum), error_of(values_of<T>(out[1]), d_sum), 0, 0, 0};
  const auto partial = values_of<float>(out[2]);
  std::vector<double> totals(std::size_t{3} * n);
  for (std::size_t i = 0; i < partial.size(); ++i) totals[i % totals.size()] += partial[i];
  for (int s = 0; s < 3; ++s) {
    const std::vector<float> total(totals.begin() + s * n, totals.begin() + (s + 1) * n);
    errors[2 + s] = error_of(total, sums[s]);
  }
  report("its gradient",
         sound && errors[0] < kTolerance<T> && errors[1] < kTolerance<T> && errors[2] < kTolerance<T> &&
             errors[3] < kTolerance<T> && errors[4] < 1e-5,
         tile, m, n, k, b_transposed);
  std::printf(" d_sum %.1e %.1e sums %.1e %.1e %.1e%s\n", errors[0], errors[1], errors[2], errors[3],
              errors[4], sound ? "" : " NOT REPEATABLE or out of bounds");
  std::fflush(stdout);
}

constexpr Tile used(int m, int n, int k, bool b_transposed, int sums) {
  return cuda::matmul_tile({cuda::kHopper, true, b_transposed, m, n, k, false, sums},
                           cuda::MatmulSchedule::whole_rows);
}

// k that fits in the stages and k that goes around.
template <class T, class R, int m, int n>
void check_shape() {
  check_forward<AddLayernorm, T, R, m, n, 72, true, used(m, n, 72, true, 0)>();
  check_forward<AddLayernorm, T, R, m, n, 256, true, used(m, n, 256, true, 0)>();
  check_forward<AddLayernorm, T, R, m, n, 1104, true, used(m, n, 1104, true, 0)>();
  check_forward<AddRmsnorm, T, R, m, n, 264, true, used(m, n, 264, true, 0)>();
  check_backward<T, R, m, n, 256, false, used(m, n, 256, false, 3)>();
  check_backward<T, R, m, n, 1104, false, used(m, n, 1104, false, 3)>();
}

// x = norm(x + y w), y = that again and again.
template <int rows, int n>
void check_chain(int m) {
  constexpr int times = 40;
  constexpr cuda::MatmulProblem problem{cuda::kHopper, true, true, rows, n, n, false, 0};
  constexpr Tile tile = cuda::matmul_tile(problem, cuda::MatmulSchedule::whole_rows);
  const auto start = random_values<bf16>(std::size_t{rows} * n, 11);
  auto weights = random_values<bf16>(std::size_t{n} * n, 12);
  for (bf16& weight : weights) weight = from_float<bf16>(to_float(weight) / 16.0f);
  const auto ones = random_values<float>(n, 13);
  DeviceArray<bf16> w(weights), x(start), y(start), sum(start), bias(random_values<bf16>(n, 14));
  DeviceArray<float> weight(ones), shift(ones), mean(std::size_t{rows}), rstd(std::size_t{rows});
  using Epilogue = AddLayernorm<bf16, bf16, n>;
  using Kernel = MatmulKernel<bf16, problem, tile, Epilogue>;
  const auto norm = [&](bf16* residual, bf16* normed) {
    return Epilogue{
        {bias.get(), residual, weight.get(), shift.get(), sum.get(), normed, mean.get(), rstd.get()},
        {},
        {},
        {}};
  };
  const Kernel forth(x.get(), w.get(), norm(x.get(), y.get())),
      back(y.get(), w.get(), norm(y.get(), x.get()));
  const int different = differing_chains(x, start, forth, back, times, m);
  failures += different > 0;
  std::printf("%s chains of %d overlapping matmuls of [%d,%d]: %d of %d differ\n",
              different > 0 ? "FAIL" : "ok  ", 2 * times, rows, n, different, m);
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac;
  using namespace hydrac::test;
  if (!has_hopper()) return 0;
  check_shape<bf16, bf16, 300, 256>();
  check_shape<bf16, float, 77, 256>();
  check_shape<f16, f16, 1, 256>();
  check_shape<bf16, float, 129, 256>();
  check_shape<bf16, bf16, 300, 384>();
  check_shape<bf16, float, 77, 384>();
  check_shape<f16, f16, 129, 384>();
  check_forward<AddLayernorm, bf16, bf16, 6000, 256, 264, true, used(6000, 256, 264, true, 0)>();
  check_backward<bf16, bf16, 6000, 256, 264, false, used(6000, 256, 264, false, 3)>();
  check_chain<16384, 256>(20);
  check_chain<16384, 384>(20);
  return print_outcome();
}
