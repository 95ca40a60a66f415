// What the tests of the matmul kernels have in common: an epilogue that does everything, and the comparison
// of its outputs with float64.
#pragma once
#include <cmath>

#include "cuda/vector.cuh"
#include "matmul_device.cuh"

namespace hydrac::test {

inline int failures = 0;

// Says so where there is none.
inline bool has_hopper() {
  cudaDeviceProp device;
  if (cudaGetDeviceProperties(&device, 0) == cudaSuccess && device.major == 9 && device.minor == 0)
    return true;
  std::printf("SKIPPED: no CUDA device of capability 9.0\n");
  return false;
}

// Of all tests; the exit code.
inline int print_outcome() {
  std::printf("%s\n", failures == 0 ? "all passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}

// What the tested epilogue does with columns c.. of a row: stores the matmuls, adds x and the bias to them
// (of a pair, to the matmul of the two), stores that too and sums it down the columns.
template <class T, int n, bool paired>
struct Everything {
  static constexpr int sums = 1, columns = paired ? n / 2 : n;
  struct Operands {
    Vector<T, 8> x;
  };

  const T *x, *bias;  // [m,columns], [columns]
  T *c, *y;           // [m,n], [m,columns]
  float* partials[sums];
  float sum[sums][8];
  Vector<T, 8> bias_in;

  __device__ void begin(int column) { bias_in = load_columns<8>(bias + column); }
  __device__ Operands load(std::int64_t row, int column) const {
    return {load_columns<8>(x + row * columns + column)};
  }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in) {
    store(c + row * n + column, values);
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[j] = element(values, j);
    finish(row, column, out, in);
  }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& first,
                             const Vector<T, 8>& second, const Operands& in) {
    store(c + row * n + column, first);
    store(c + row * n + columns + column, second);
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[j] = element(first, j) * element(second, j);
    finish(row, column, out, in);
  }

 private:
  __device__ void finish(std::int64_t row, int column, float (&out)[8], const Operands& in) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      out[j] = out[j] + element(in.x, j) + element(bias_in, j);
      sum[0][j] += round_to<T>(out[j]);
    }
    store_columns<8>(y + row * columns + column, out);
  }
};

// |c - a b| / |a b|, a b in float64.
template <class T, int n, int k, bool b_transposed>
double matmul_error(const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& c, int m) {
  std::vector<double> wide_b(b.size()), row(n);  // [k,n]
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < n; ++j) wide_b[i * n + j] = to_float(b_transposed ? b[j * k + i] : b[i * n + j]);
  }
  double difference = 0, size = 0;
  for (int r = 0; r < m; ++r) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int i = 0; i < k; ++i) {
      const double x = to_float(a[r * k + i]);
      for (int j = 0; j < n; ++j) row[j] += x * wide_b[i * n + j];
    }
    for (int j = 0; j < n; ++j) {
      const double off = to_float(c[static_cast<std::size_t>(r) * n + j]) - row[j];
      difference += off * off;
      size += row[j] * row[j];
    }
  }
  return std::sqrt(difference / size);
}

// Outputs that are not what the epilogue makes of `c`, bit by bit, and the largest error of a column sum over
// the sum of magnitudes.
template <class T, int n, bool paired>
void epilogue_errors(const std::vector<T>& c, const std::vector<T>& x, const std::vector<T>& bias,
                     const std::vector<T>& y, const std::vector<float>& partials, int m, std::size_t& wrong,
                     double& sum_error) {
  constexpr int columns = paired ? n / 2 : n;
  std::vector<double> sums(columns), sizes(columns);
  for (int r = 0; r < m; ++r) {
    for (int j = 0; j < columns; ++j) {
      const std::size_t at = static_cast<std::size_t>(r) * columns + j,
                        from = static_cast<std::size_t>(r) * n + j;
      float value = to_float(c[from]);
      if (paired) value = value * to_float(c[from + columns]);
      const T expected = from_float<T>(value + to_float(x[at]) + to_float(bias[j]));
      wrong += expected.bits != y[at].bits;
      sums[j] += to_float(expected);
      sizes[j] += std::fabs(to_float(expected));
    }
  }
  for (std::size_t i = 0; i < partials.size(); ++i) sums[i % columns] -= partials[i];
  for (int j = 0; j < columns; ++j) {
    const double error = std::fabs(sums[j]) / sizes[j];
    if (!(error <= sum_error)) sum_error = error;  // NaN too
  }
}

template <class T>
constexpr cuda::MatmulProblem checked_problem(int m, int n, int k, bool b_transposed, bool paired) {
  return {cuda::kHopper, __is_same(T, bf16), b_transposed, m, n, k, paired, 1};
}

// On the tiles of a persistent schedule unless others are given.
template <class T, int m, int n, int k, bool b_transposed, bool paired,
          cuda::MatmulTile tile = persistent_tile(checked_problem<T>(m, n, k, b_transposed, paired))>
void check_case() {
  constexpr int columns = paired ? n / 2 : n;
  using Epilogue = Everything<T, n, paired>;
  constexpr cuda::MatmulProblem problem = checked_problem<T>(m, n, k, b_transposed, paired);
  using Launch = MatmulKernel<T, problem, tile, Epilogue>;
  const auto a = random_values<T>(static_cast<std::size_t>(m) * k, 3 * m + n);
  auto b = random_values<T>(static_cast<std::size_t>(n) * k, 5 * m + k);
  for (T& weight : b) weight = from_float<T>(to_float(weight) / std::sqrt(static_cast<float>(k)));
  const auto x = random_values<T>(static_cast<std::size_t>(m) * columns, 7),
             bias = random_values<T>(columns, 8);

  DeviceArray<T> device_a(a), device_b(b), device_x(x), device_bias(bias);
  DeviceArray<T> c(static_cast<std::size_t>(m) * n), y(x.size());
  DeviceArray<float> partials(Launch::kSumsRows * columns);
  const Launch launch(device_a.get(), device_b.get(),
                      {device_x.get(), device_bias.get(), c.get(), y.get(), {partials.get()}, {}, {}});
  std::vector<T> cs[2], ys[2];
  std::vector<float> sums[2];
  bool intact = true;
  for (int run = 0; run < 2; ++run) {
    c.poison(), y.poison(), partials.poison();
    launch();
    check(cudaDeviceSynchronize(), "matmul");
    bool whole[3];
    cs[run] = c.read(whole[0]), ys[run] = y.read(whole[1]), sums[run] = partials.read(whole[2]);
    intact = intact && whole[0] && whole[1] && whole[2];
  }
  const auto same = [](const auto& first, const auto& second) {
    return std::memcmp(first.data(), second.data(), first.size() * sizeof(first[0])) == 0;
  };
  const bool repeatable = same(cs[0], cs[1]) && same(ys[0], ys[1]) && same(sums[0], sums[1]);
  const double error = matmul_error<T, n, k, b_transposed>(a, b, cs[0], m);
  std::size_t wrong = 0;
  double sum_error = 0;
  epilogue_errors<T, n, paired>(cs[0], x, bias, ys[0], sums[0], m, wrong, sum_error);
  // What rounding the matmuls explains, with room.
  const bool passed = error < (__is_same(T, bf16) ? 2.5e-3 : 3.5e-4) && wrong == 0 && sum_error < 1e-6 &&
                      repeatable && intact;
  failures += !passed;
  std::printf("%s %-4s m=%-4d n=%-4d k=%-3d %s %s matmul %.1e wrong outputs %zu sums %.1e%s%s\n",
              passed ? "ok  " : "FAIL", __is_same(T, bf16) ? "bf16" : "f16", m, n, k,
              b_transposed ? "[n,k]" : "[k,n]", paired ? "paired" : "single", error, wrong, sum_error,
              repeatable ? "" : " NOT REPEATABLE", intact ? "" : " WROTE PAST THE END");
  std::fflush(stdout);
}

// How many of `chains` end otherwise than one whose launches wait for each other: `times` runs of `forth`,
// which reads x, and `back`, which writes it, each launched before the one before it ends.
template <class Forth, class Back>
int differing_chains(DeviceArray<bf16>& x, const std::vector<bf16>& start, const Forth& forth,
                     const Back& back, int times, int chains) {
  std::vector<bf16> expected;
  int different = 0;
  for (int run = 0; run < 1 + chains; ++run) {
    check(cudaMemcpy(x.get(), start.data(), start.size() * sizeof(bf16), cudaMemcpyHostToDevice), "memcpy");
    for (int i = 0; i < times; ++i) {
      forth(nullptr, run > 0), back(nullptr, run > 0);
      if (run == 0) check(cudaDeviceSynchronize(), "chain");
    }
    check(cudaDeviceSynchronize(), "chain");
    bool intact;
    const std::vector<bf16> end = x.read(intact);
    if (run == 0) expected = end;
    different += std::memcmp(end.data(), expected.data(), end.size() * sizeof(bf16)) != 0 || !intact;
  }
  return different;
}

}  // namespace hydrac::test
