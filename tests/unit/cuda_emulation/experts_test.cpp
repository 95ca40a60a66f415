// The kernels of mixtures of experts, emulated, against plain loops: rows sorted by expert, their matmuls and
// the gradients of their matrices. Numbers are small integers, so that every sum is exact in any order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "cuda/expert_geometry.h"
#include "cuda/matmul/expert_gradients.h"
#include "cuda/matmul/geometry.h"
#include "cuda/matmul/plain_tile.h"
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"

namespace hydrac::emulation {
namespace {

// Rows of each expert, in units of 128.
using Units = std::vector<int>;

std::vector<int> offsets_of(const Units& units) {
  std::vector<int> offsets{0};
  for (const int count : units) offsets.push_back(offsets.back() + count * cuda::kExpertRows);
  return offsets;
}

// From -1 to 1; of those, a few in each row.
float number(std::int64_t row, std::int64_t column, int seed) {
  const std::int64_t mixed = (row * 37 + column * 11 + seed) % 61;
  return mixed < 9 ? static_cast<float>(mixed % 3 - 1) : 0.0f;
}
template <typename T>
std::vector<T> numbers(std::int64_t rows, std::int64_t width, int seed) {
  std::vector<T> values;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < width; ++c) values.push_back(from_float<T>(number(r, c, seed)));
  return values;
}

template <typename T>
constexpr const char* kName = "float";
template <>
constexpr const char* kName<bf16> = "bf16";
template <>
constexpr const char* kName<f16> = "f16";

TensorMap map_of(const std::vector<bf16>& matrix, const cuda::MatmulMap& map) {
  return {{reinterpret_cast<std::uint64_t>(matrix.data()), static_cast<std::uint64_t>(map.size[0]),
           static_cast<std::uint64_t>(map.size[1]), static_cast<std::uint64_t>(map.box[0]),
           static_cast<std::uint64_t>(map.box[1])}};
}

Geometry geometry(std::int64_t blocks, int threads, std::uint64_t shared_bytes = 0) {
  return {{static_cast<unsigned>(blocks), 1, 1}, {static_cast<unsigned>(threads), 1, 1}, shared_bytes};
}

constexpr float kUntouched = 77.0f;
constexpr std::int64_t kSpareRows = 2 * cuda::kExpertRows;  // behind the last expert's

// The matmul of experts: x [rows,k], b [experts * n,k], or [experts * k,n].
template <typename T>
struct Matmul {
  Units units;
  std::int64_t n, k;
  bool b_transposed;
  std::vector<int> offsets = offsets_of(units);
  std::int64_t rows = offsets.back() + kSpareRows;
  std::vector<T> x = numbers<T>(rows, k, 1);
  std::vector<T> b = numbers<T>(std::ssize(units) * (b_transposed ? n : k), b_transposed ? k : n, 5);

  float product(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    float sum = 0;
    for (std::int64_t i = 0; i < k; ++i)
      sum += to_float(x[row * k + i]) *
             to_float(b[b_transposed ? (expert * n + column) * k + i : (expert * k + i) * n + column]);
    return sum;
  }
  // y, or, paired, the products of columns c and c + n / 2.
  std::vector<float> expected(bool paired) const {
    const std::int64_t columns = paired ? n / 2 : n;
    std::vector<float> y(rows * columns, kUntouched);
    for (std::int64_t e = 0; e < std::ssize(units); ++e)
      for (std::int64_t row = offsets[e]; row < offsets[e + 1]; ++row)
        for (std::int64_t c = 0; c < columns; ++c)
          y[row * columns + c] = product(e, row, c) * (paired ? product(e, row, c + columns) : 1.0f);
    return y;
  }
};

template <typename T>
std::vector<float> floats(const std::vector<T>& values) {
  std::vector<float> result;
  for (const T x : values) result.push_back(to_float(x));
  return result;
}

// Few blocks, of which each has several tiles.
void check_matmul(const Units& units, std::int64_t n, std::int64_t k, bool b_transposed, bool paired) {
  SCOPED_TRACE(
      fmt::format("{} experts, n {}, k {}, {}", units.size(), n, k, b_transposed ? "[n,k]" : "[k,n]"));
  const Matmul<bf16> given{units, n, k, b_transposed};
  const cuda::MatmulProblem problem{.chip = cuda::kHopper,
                                    .is_bf16 = true,
                                    .b_transposed = b_transposed,
                                    .m = given.rows,
                                    .n = n,
                                    .k = k,
                                    .paired = paired,
                                    .sums = 0,
                                    .experts = std::ssize(units)};
  ASSERT_TRUE(matmul_supports(problem, cuda::MatmulSchedule::persistent));
  cuda::MatmulTile tile = matmul_tile(problem, cuda::MatmulSchedule::persistent);
  tile.cluster = 1;
  const std::int64_t columns = paired ? n / 2 : n;
  const std::string source = fmt::format(
      "#include \"cuda/matmul/persistent.cuh\"\nnamespace hydrac {{\n"
      "struct Epilogue {{\n  static constexpr int sums = 0;\n  struct Operands {{}};\n  bf16* y;\n"
      "  void begin(int) {{}}\n  Operands load(std::int64_t, int) const {{ return {{}}; }}\n"
      "  void operator()(std::int64_t r, int c, const Vector<bf16, 8>& values, const Operands&) {{\n"
      "    store(y + r * {0} + c, values);\n  }}\n"
      "  void operator()(std::int64_t r, int c, const Vector<bf16, 8>& first, const Vector<bf16, 8>& "
      "second,\n"
      "                  const Operands&) {{\n"
      "    for (int j = 0; j < 8; ++j) y[r * {0} + c + j] = from_float<bf16>(element(first, j) * "
      "element(second, j));\n  }}\n}};\n"
      "extern \"C\" __global__ void kernel(const TensorMap a, const TensorMap b, const int* offsets, bf16* "
      "y) {{\n"
      "  using Config = cuda::MatmulConfig<bf16, {1}, {2}, {3}, {4}, cuda::MatmulTile{{\n"
      "      cuda::MatmulSchedule::persistent, {5}, {6}, {7}, 1}}, 0, {8}>;\n  Epilogue epilogue{{y}};\n"
      "  cuda::persistent_matmul<Config>({{a, b, a, b, offsets}}, 0, epilogue, ::shared);\n}}\n}}\n"
      "using hydrac::kernel;\n",
      columns, n, k, b_transposed, paired, tile.rows, tile.panels, tile.stages, units.size());
  const TensorMap map_x = map_of(given.x, matmul_map_a(problem, tile)),
                  map_b = map_of(given.b, matmul_map_b(problem));
  std::vector<bf16> y(static_cast<std::size_t>(given.rows * columns), from_float<bf16>(kUntouched));
  const int* offsets = given.offsets.data();
  bf16* y_at = y.data();
  EmulatedKernels kernels(source, {"kernel"});
  kernels.launch_both_orders("kernel",
                             geometry(3, tile.threads(), static_cast<std::uint64_t>(tile.shared_bytes())),
                             addresses(map_x, map_b, offsets, y_at), std::vector{bytes_of(y)});
  EXPECT_EQ(floats(y), given.expected(paired));
}

TEST(EmulatedExperts, MultiplyTheRowsOfEachWithItsMatrix) {
  check_matmul({1, 0, 2, 0}, 208, 136, true, false);
  check_matmul({0, 1, 1}, 136, 72, false, false);
  check_matmul({0, 0, 2, 1}, 272, 64, true, true);
  check_matmul({1}, 64, 72, true, false);
  check_matmul({0, 0}, 64, 72, true, false);
}

template <typename T>
void check_plain_matmul(const Units& units, std::int64_t n, std::int64_t k, bool b_transposed,
                        bool uses_mma) {
  SCOPED_TRACE(fmt::format("{}, {} experts, n {}, k {}, {}", kName<T>, units.size(), n, k,
                           b_transposed ? "[n,k]" : "[k,n]"));
  const Matmul<T> given{units, n, k, b_transposed};
  const std::string source = fmt::format(
      "#include \"cuda/matmul/plain_experts.cuh\"\nnamespace hydrac {{\n"
      "extern \"C\" __global__ void kernel(const {0}* x, const {0}* b, const int* offsets, {0}* y) {{\n"
      "  cuda::plain_expert_matmul<{0}, {1}, {2}, {3}, {4}, {5}>(x, b, offsets, y);\n}}\n}}\n"
      "using hydrac::kernel;\n",
      kName<T>, units.size(), n, k, b_transposed, uses_mma);
  std::vector<T> y(static_cast<std::size_t>(given.rows * n), from_float<T>(kUntouched));
  const T *x = given.x.data(), *b = given.b.data();
  const int* offsets = given.offsets.data();
  T* y_at = y.data();
  EmulatedKernels kernels(source, {"kernel"});
  kernels.launch_both_orders(
      "kernel",
      geometry(cuda::plain_matmul_blocks(given.rows, n), cuda::kPlainThreads, cuda::kPlainSharedBytes),
      addresses(x, b, offsets, y_at), std::vector{bytes_of(y)});
  EXPECT_EQ(floats(y), given.expected(false));
}

// Sizes that 16 bytes divide, and others.
TEST(EmulatedExperts, MultiplyOnAnyGpuAndInAnyType) {
  check_plain_matmul<bf16>({1, 0, 2}, 136, 72, true, true);
  check_plain_matmul<f16>({0, 1}, 72, 136, false, true);
  check_plain_matmul<bf16>({1, 1}, 13, 27, true, false);
  check_plain_matmul<bf16>({1, 1}, 13, 27, false, true);
  check_plain_matmul<float>({1, 0, 1}, 132, 44, true, false);
  check_plain_matmul<float>({0, 1}, 30, 18, false, false);
}

// d_w[e] (+)= d_y^T . x.
template <typename T>
struct Gradients {
  Units units;
  std::int64_t m, n;
  bool accumulate;
  std::vector<int> offsets = offsets_of(units);
  std::int64_t rows = offsets.back() + kSpareRows;
  std::vector<T> d_y = numbers<T>(rows, m, 2), x = numbers<T>(rows, n, 7);

  std::vector<float> expected() const {
    std::vector<float> d_w;
    for (std::int64_t e = 0; e < std::ssize(units); ++e) {
      for (std::int64_t i = 0; i < m * n; ++i) {
        float sum = accumulate ? kUntouched : 0.0f;
        for (std::int64_t row = offsets[e]; row < offsets[e + 1]; ++row)
          sum += to_float(d_y[row * m + i / n]) * to_float(x[row * n + i % n]);
        d_w.push_back(sum);
      }
    }
    return d_w;
  }
};

template <typename Gradient>
void check_gradients(const Units& units, std::int64_t m, std::int64_t n, int columns, int stages,
                     bool accumulate) {
  SCOPED_TRACE(fmt::format("{} experts [{},{}], {} columns", units.size(), m, n, columns));
  const Gradients<bf16> given{units, m, n, accumulate};
  const cuda::ExpertGradientsProblem problem{
      cuda::kHopper, true, given.rows, static_cast<int>(units.size()), m, n};
  ASSERT_TRUE(expert_gradients_support(problem));
  const cuda::ExpertGradientTile tile{columns, stages, 1};
  const std::string source = fmt::format(
      "#include \"cuda/matmul/expert_gradients.cuh\"\nnamespace hydrac {{\n"
      "extern \"C\" __global__ void kernel(const TensorMap d_y, const TensorMap x, const int* offsets, {0}* "
      "d_w) "
      "{{\n  using Config = cuda::ExpertGradientsConfig<bf16, {0}, {1}, {2}, {3}, {4}, "
      "cuda::ExpertGradientTile{{{5}, {6}, 1}}>;\n"
      "  cuda::expert_gradients<Config>(d_y, x, offsets, d_w);\n}}\n}}\nusing hydrac::kernel;\n",
      kName<Gradient>, units.size(), m, n, accumulate, columns, stages);
  const TensorMap map_d_y = map_of(given.d_y, expert_gradients_map_d_y(problem)),
                  map_x = map_of(given.x, expert_gradients_map_x(problem, tile));
  std::vector<Gradient> d_w(units.size() * static_cast<std::size_t>(m * n), from_float<Gradient>(kUntouched));
  const int* offsets = given.offsets.data();
  Gradient* d_w_at = d_w.data();
  EmulatedKernels kernels(source, {"kernel"});
  kernels.launch_both_orders("kernel",
                             geometry(3, tile.threads, static_cast<std::uint64_t>(tile.shared_bytes())),
                             addresses(map_d_y, map_x, offsets, d_w_at), std::vector{bytes_of(d_w)});
  EXPECT_EQ(floats(d_w), given.expected());
}

// Stages that go around within a tile, and tiles of experts without rows before, between and behind others.
TEST(EmulatedExperts, SumTheGradientsOfEachMatrixOverItsRows) {
  check_gradients<float>({0, 1, 0, 2, 0}, 136, 200, 128, 3, false);
  check_gradients<float>({0, 1, 0, 2, 0}, 136, 200, 192, 5, true);
  check_gradients<bf16>({1, 2}, 64, 72, 128, 6, false);
  check_gradients<float>({0, 0}, 64, 72, 128, 6, false);
  check_gradients<float>({1}, 264, 392, 192, 5, true);
}

template <typename T, typename Gradient>
void check_plain_gradients(const Units& units, std::int64_t m, std::int64_t n, bool accumulate,
                           bool uses_mma) {
  SCOPED_TRACE(fmt::format("{}, {} experts [{},{}]", kName<T>, units.size(), m, n));
  const Gradients<T> given{units, m, n, accumulate};
  const std::string source = fmt::format(
      "#include \"cuda/matmul/plain_experts.cuh\"\nnamespace hydrac {{\n"
      "extern \"C\" __global__ void kernel(const {0}* d_y, const {0}* x, const int* offsets, {1}* d_w) {{\n"
      "  cuda::plain_expert_gradients<{0}, {1}, {2}, {3}, {4}, {5}, {6}>(d_y, x, offsets, d_w);\n}}\n}}\n"
      "using hydrac::kernel;\n",
      kName<T>, kName<Gradient>, units.size(), m, n, accumulate, uses_mma);
  std::vector<Gradient> d_w(units.size() * static_cast<std::size_t>(m * n), from_float<Gradient>(kUntouched));
  const T *d_y = given.d_y.data(), *x = given.x.data();
  const int* offsets = given.offsets.data();
  Gradient* d_w_at = d_w.data();
  EmulatedKernels kernels(source, {"kernel"});
  kernels.launch_both_orders("kernel",
                             geometry(cuda::plain_gradient_blocks(static_cast<int>(units.size()), m, n),
                                      cuda::kPlainThreads, cuda::kPlainSharedBytes),
                             addresses(d_y, x, offsets, d_w_at), std::vector{bytes_of(d_w)});
  EXPECT_EQ(floats(d_w), given.expected());
}

TEST(EmulatedExperts, SumGradientsOnAnyGpuAndInAnyType) {
  check_plain_gradients<bf16, float>({0, 1, 2}, 136, 72, false, true);
  check_plain_gradients<f16, float>({1, 0}, 30, 50, true, true);
  check_plain_gradients<bf16, bf16>({1, 1}, 40, 24, false, false);
  check_plain_gradients<float, float>({0, 2, 0}, 36, 132, true, false);
  check_plain_gradients<float, float>({1, 0}, 15, 21, false, false);
}

// source, place and offsets of a stable counting sort.
void check_rows(int choices, int experts, const std::function<int(int)>& choose) {
  SCOPED_TRACE(fmt::format("{} choices of {} experts", choices, experts));
  constexpr int unit = cuda::kExpertRows;
  const cuda::ExpertChoices c{choices, experts, unit,
                              (choices + experts * (unit - 1) + unit - 1) / unit * unit};
  const std::string source_text = fmt::format(
      "#include \"cuda/expert_rows.cuh\"\n"
      "constexpr hydrac::cuda::ExpertChoices c{{{}, {}, {}, {}}};\n"
      "extern \"C\" __global__ void count(const int* chosen, float* counts) {{\n"
      "  hydrac::cuda::count_experts<c>(chosen, counts);\n}}\n"
      "extern \"C\" __global__ void place_rows(const int* chosen, const float* counts, int* source, int* "
      "place,\n"
      "                                       int* offsets) {{\n"
      "  hydrac::cuda::place_experts<c>(chosen, counts, source, place, offsets);\n}}\n",
      choices, experts, unit, c.rows);
  std::vector<int> chosen;
  for (int i = 0; i < choices; ++i) chosen.push_back(choose(i));
  std::vector<int> counts(static_cast<std::size_t>(expert_workspace_bytes(c)) / 4, -7),
      source(static_cast<std::size_t>(c.rows), -7), place(static_cast<std::size_t>(choices), -7),
      offsets(static_cast<std::size_t>(experts) + 1, -7);
  std::vector<int> wanted_source(source.size(), -1), wanted_place(place.size()), wanted_offsets{0};
  int row = 0;
  for (int e = 0; e < experts; ++e) {
    for (int i = 0; i < choices; ++i) {
      if (chosen[i] != e) continue;
      wanted_place[i] = row;
      wanted_source[row++] = i;
    }
    row = (row + unit - 1) / unit * unit;
    wanted_offsets.push_back(row);
  }
  const int* chosen_at = chosen.data();
  int *counts_at = counts.data(), *source_at = source.data(), *place_at = place.data(),
      *offsets_at = offsets.data();
  const Geometry launch = geometry(expert_blocks(c), cuda::kExpertThreads);
  EmulatedKernels kernels(source_text, {"count", "place_rows"});
  kernels.launch_both_orders("count", launch, addresses(chosen_at, counts_at), std::vector{bytes_of(counts)});
  kernels.launch_both_orders("place_rows", launch,
                             addresses(chosen_at, counts_at, source_at, place_at, offsets_at),
                             std::vector{bytes_of(source), bytes_of(place), bytes_of(offsets)});
  EXPECT_EQ(offsets, wanted_offsets);
  EXPECT_EQ(place, wanted_place);
  EXPECT_EQ(source, wanted_source);
}

TEST(EmulatedExperts, RowsAreSortedByExpertAndKeepTheOrderOfTheTokens) {
  check_rows(1, 1, [](int) { return 0; });
  check_rows(300, 8, [](int i) { return i * 7 % 5; });
  check_rows(2000, 64, [](int) { return 63; });
  check_rows(5001, 130, [](int i) { return i * i % 129; });
  check_rows(20000, 40, [](int i) { return i / 501; });
}

// A slice of 256 choices a warp, and no more blocks than one adds up quickly.
TEST(ExpertGeometry, SlicesAreWholeWarpsAndCoverAllChoices) {
  for (const int choices : {1, 31, 33, 16384, 16385, 100000, 262144, 1000003}) {
    const cuda::ExpertChoices c{choices, 128, 128, 0};
    EXPECT_EQ(expert_slice(c) % 32, 0);
    EXPECT_LE(expert_blocks(c), 64);
    EXPECT_GE(expert_blocks(c) * expert_slice(c) * cuda::kExpertWarps, choices);
    EXPECT_LT((expert_blocks(c) - 1) * expert_slice(c) * cuda::kExpertWarps, choices);
  }
}

}  // namespace
}  // namespace hydrac::emulation
