// The matmul kernels of templates/cuda/matmul, emulated: pipeline, mainloop and epilogue as they run on a
// GPU, but for clusters, which are one block. Numbers are small, so that every sum is exact in any order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/matmul/geometry.h"
#include "cuda/matmul/weight_gradients.h"
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::emulation {
namespace {

using cuda::MatmulProblem;
using cuda::MatmulSchedule;
using cuda::MatmulTile;

// y = c * x, summed down the columns; of a pair, of the product of its sides.
constexpr const char* kPointwise = R"(
struct Epilogue {
  static constexpr int sums = 1;
  struct Operands { Vector<bf16, 8> x; };
  const bf16* x;
  bf16* y;
  float* partials[1];
  float sum[1][8];
  void begin(int) {}
  Operands load(std::int64_t r, int c) const { return {load_columns<8>(x + r * kColumns + c)}; }
  void operator()(std::int64_t r, int c, const Vector<bf16, 8>& values, const Operands& in) {
    float out[8];
    for (int j = 0; j < 8; ++j) sum[0][j] += out[j] = element(values, j) * element(in.x, j);
    store_columns<8>(y + r * kColumns + c, out);
  }
  void operator()(std::int64_t r, int c, const Vector<bf16, 8>& first, const Vector<bf16, 8>& second,
                  const Operands& in) {
    float out[8];
    for (int j = 0; j < 8; ++j)
      sum[0][j] += out[j] = element(first, j) * element(second, j) * element(in.x, j);
    store_columns<8>(y + r * kColumns + c, out);
  }
};
)";

// y = c * x, without sums.
constexpr const char* kWithoutSums = R"(
struct Epilogue {
  static constexpr int sums = 0;
  struct Operands { Vector<bf16, 8> x; };
  const bf16* x;
  bf16* y;
  void begin(int) {}
  Operands load(std::int64_t r, int c) const { return {load_columns<8>(x + r * kColumns + c)}; }
  void operator()(std::int64_t r, int c, const Vector<bf16, 8>& values, const Operands& in) {
    float out[8];
    for (int j = 0; j < 8; ++j) out[j] = element(values, j) * element(in.x, j);
    store_columns<8>(y + r * kColumns + c, out);
  }
  void operator()(std::int64_t r, int c, const Vector<bf16, 8>& first, const Vector<bf16, 8>& second,
                  const Operands& in) {
    float out[8];
    for (int j = 0; j < 8; ++j) out[j] = element(first, j) * element(second, j) * element(in.x, j);
    store_columns<8>(y + r * kColumns + c, out);
  }
};
)";

// y = c * x + the row's sum of c, summed down the columns.
constexpr const char* kOfRows = R"(
struct Epilogue {
  static constexpr int sums = 1, passes = 2, reductions = 1;
  struct Operands { Vector<bf16, 8> x; };
  struct Kept { float scaled[8]; };
  const bf16* x;
  bf16* y;
  float* partials[1];
  float sum[1][8];
  void begin(int) {}
  Operands load(std::int64_t r, int c) const { return {load_columns<8>(x + r * kColumns + c)}; }
  template <int pass>
  void apply(std::int64_t r, int c, const Vector<bf16, 8>& values, const Operands& in, Kept& kept,
             const float (&totals)[1], float (&partial)[1]) {
    for (int j = 0; j < 8; ++j) {
      if (pass == 0) {
        kept.scaled[j] = element(values, j) * element(in.x, j);
        partial[0] += element(values, j);
      } else {
        sum[0][j] += kept.scaled[j] += totals[0];
      }
    }
    if (pass == 1) store_columns<8>(y + r * kColumns + c, kept.scaled);
  }
};
)";

const char* name_of(MatmulSchedule schedule) {
  if (schedule == MatmulSchedule::persistent) return "persistent";
  if (schedule == MatmulSchedule::few_rows) return "few_rows";
  return schedule == MatmulSchedule::one_tile ? "one_tile" : "whole_rows";
}

std::string source_of(const MatmulProblem& p, const MatmulTile& tile) {
  const bool has_sums = p.sums > 0;
  const char* epilogue = tile.schedule == MatmulSchedule::whole_rows ? kOfRows
                         : has_sums                                  ? kPointwise
                                                                     : kWithoutSums;
  return fmt::format(
      "#include \"cuda/matmul/{0}.cuh\"\n#include \"cuda/vector.cuh\"\nnamespace hydrac {{\n"
      "constexpr int kColumns = {1};\n{2}"
      "extern \"C\" __global__ void kernel(const TensorMap a, const TensorMap b, const TensorMap tail_a, "
      "const TensorMap tail_b, const bf16* x, bf16* y, float* sums, std::int64_t rows) {{\n"
      "  using Config = cuda::MatmulConfig<bf16, {3}, {4}, {5}, {6}, cuda::MatmulTile{{\n"
      "      cuda::MatmulSchedule::{0}, {7}, {8}, {9}, {10}}}, {12}>;\n"
      "  Epilogue epilogue{{x, y{11}}};\n"
      "  cuda::{0}_matmul<Config>({13}, rows, epilogue, ::shared);\n}}\n}}\nusing hydrac::kernel;\n",
      name_of(tile.schedule), p.paired ? p.n / 2 : p.n, epilogue, p.n, p.k, p.b_transposed, p.paired,
      tile.rows, tile.panels, tile.stages, tile.cluster, has_sums ? ", {sums}, {}" : "", p.tail_k,
      tile.is_persistent() ? "{a, b, tail_a, tail_b}" : "a, b");
}

// From -1 to 1; of those, a few in each row.
std::vector<bf16> numbers(std::int64_t rows, std::int64_t width, int seed) {
  std::vector<bf16> values;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t mixed = (r * 37 + c * 11 + seed) % 61;
      values.push_back(from_float<bf16>(mixed < 9 ? static_cast<float>(mixed % 3 - 1) : 0.0f));
    }
  }
  return values;
}

TensorMap map_of(const std::vector<bf16>& matrix, const cuda::MatmulMap& map) {
  return {{reinterpret_cast<std::uint64_t>(matrix.data()), static_cast<std::uint64_t>(map.size[0]),
           static_cast<std::uint64_t>(map.size[1]), static_cast<std::uint64_t>(map.box[0]),
           static_cast<std::uint64_t>(map.box[1])}};
}

struct Expected {
  std::vector<float> y, sums;
};

// The operands of a matmul.
struct Matrices {
  std::int64_t k;
  std::vector<bf16> a, b;

  Matrices(const MatmulProblem& p, int seed)
      : k(p.k),
        a(numbers(p.m, k, seed)),
        b(p.b_transposed ? numbers(p.n, k, seed + 1) : numbers(k, p.n, seed + 1)) {}

  // Of row r and column j of their product.
  float product(const MatmulProblem& p, std::int64_t r, std::int64_t j) const {
    float sum = 0;
    for (std::int64_t i = 0; i < k; ++i)
      sum += to_float(a[r * k + i]) * to_float(b[p.b_transposed ? j * k + i : i * p.n + j]);
    return sum;
  }
};

Expected expected_of(const MatmulProblem& p, bool sees_rows, const Matrices& matrices, const Matrices& tail,
                     const std::vector<bf16>& x) {
  const std::int64_t columns = p.paired ? p.n / 2 : p.n;
  Expected result{{}, std::vector<float>(static_cast<std::size_t>(columns))};
  for (std::int64_t r = 0; r < p.m; ++r) {
    std::vector<float> c(static_cast<std::size_t>(p.n));
    float row_sum = 0;
    for (std::int64_t j = 0; j < p.n; ++j) {
      const float sum = matrices.product(p, r, j) + tail.product(p, r, j);
      c[static_cast<std::size_t>(j)] = sum;
      row_sum += sum;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      float value = c[j] * to_float(x[r * columns + j]);
      if (p.paired) value *= c[columns + j];
      if (sees_rows) value += row_sum;
      result.y.push_back(value);
      result.sums[j] += value;
    }
  }
  return result;
}

void check(const MatmulProblem& p, const MatmulTile& tile, unsigned blocks = 0) {
  SCOPED_TRACE(fmt::format("{} [{},{}] k {} + {}, b {}, {} rows, {} panels, {} stages",
                           name_of(tile.schedule), p.m, p.n, p.k, p.tail_k,
                           p.b_transposed ? "[n,k]" : "[k,n]", tile.rows, tile.panels, tile.stages));
  const std::int64_t columns = p.paired ? p.n / 2 : p.n;
  const MatmulProblem of_tail = matmul_tail(p);
  const Matrices matrices(p, 1), tail(of_tail, 4);
  const std::vector<bf16> x = numbers(p.m, columns, 3);
  const TensorMap map_a = map_of(matrices.a, matmul_map_a(p, tile)),
                  map_b = map_of(matrices.b, matmul_map_b(p)),
                  map_tail_a = map_of(tail.a, matmul_map_a(of_tail, tile)),
                  map_tail_b = map_of(tail.b, matmul_map_b(of_tail));
  std::vector<bf16> y(static_cast<std::size_t>(p.m * columns), from_float<bf16>(77.0f));
  std::vector<float> partials(static_cast<std::size_t>(matmul_sums_rows(p, tile) * columns), 77.0f);
  const bf16* x_at = x.data();
  bf16* y_at = y.data();
  float* sums_at = partials.data();
  const cuda::MatmulLaunch launch = matmul_launch(p, tile);
  EmulatedKernels kernels(source_of(p, tile), {"kernel"});
  kernels.launch_both_orders("kernel",
                             {{blocks > 0 ? blocks : launch.grid, 1, 1},
                              {static_cast<unsigned>(launch.threads), 1, 1},
                              launch.shared_bytes},
                             addresses(map_a, map_b, map_tail_a, map_tail_b, x_at, y_at, sums_at, p.m),
                             std::vector{bytes_of(y), bytes_of(partials)});
  const Expected expected = expected_of(p, tile.schedule == MatmulSchedule::whole_rows, matrices, tail, x);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) wrong += to_float(y[i]) != expected.y[i];
  EXPECT_EQ(wrong, 0u);
  if (p.sums == 0) return;
  std::vector<float> sums(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < partials.size(); ++i) sums[i % sums.size()] += partials[i];
  EXPECT_EQ(sums, expected.sums);
}

MatmulProblem problem(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed,
                      bool paired = false) {
  return {cuda::kHopper, true, b_transposed, m, n, k, paired, 1};
}

// Few blocks, of which each has several tiles; rows, columns and k that no tile divides.
TEST(EmulatedMatmul, OfPersistentBlocks) {
  const MatmulTile low{MatmulSchedule::persistent, 128, 2, 5, 1},
      high{MatmulSchedule::persistent, 192, 2, 4, 1};
  check(problem(500, 208, 200, true), low, 2);
  check(problem(300, 208, 392, false), high, 2);
  check(problem(300, 416, 72, true, true), high, 1);
  check(problem(128, 128, 64, false), low);
}

// A tail of less than a stage, of several that none divides, and of more than there are stages.
TEST(EmulatedMatmul, WithATail) {
  const auto with_tail = [](MatmulProblem p, std::int64_t tail_k) {
    p.tail_k = tail_k;
    return p;
  };
  const MatmulTile low{MatmulSchedule::persistent, 128, 2, 5, 1},
      high{MatmulSchedule::persistent, 192, 2, 4, 1};
  check(with_tail(problem(500, 208, 200, true), 16), low, 2);
  check(with_tail(problem(300, 208, 136, false), 72), high, 2);
  check(with_tail(problem(300, 416, 72, true, true), 48), high, 1);
  check(with_tail(problem(130, 64, 64, false), 328), low, 1);
}

// k that fits into the stages and k that goes around.
TEST(EmulatedMatmul, OfOneTileABlock) {
  const auto tile = [](int panels, int stages) {
    return MatmulTile{MatmulSchedule::one_tile, 64, panels, stages};
  };
  check(problem(130, 208, 200, true), tile(2, 4));
  check(problem(130, 208, 328, false), tile(3, 2));
  check(problem(64, 64, 64, false), tile(1, 1));
}

// Fewer rows than a tile has; k that fits into the stages and k that goes around.
TEST(EmulatedMatmul, OfFewRows) {
  const auto tile = [](int panels, int stages) {
    return MatmulTile{MatmulSchedule::few_rows, 64, panels, stages};
  };
  const auto without_sums = [](MatmulProblem p) {
    p.sums = 0;
    return p;
  };
  check(without_sums(problem(64, 208, 200, true)), tile(1, 4));
  check(without_sums(problem(3, 208, 328, true)), tile(1, 2));
  check(without_sums(problem(37, 416, 328, true, true)), tile(2, 3));
}

TEST(EmulatedMatmul, OfWholeRows) {
  const auto tile = [](int rows, int panels, int stages) {
    return MatmulTile{MatmulSchedule::whole_rows, rows, panels, stages, 1};
  };
  check(problem(70, 256, 200, true), tile(64, 4, 4));
  check(problem(200, 256, 328, false), tile(128, 4, 3));
  check(problem(130, 384, 72, false), tile(64, 6, 2));
}

// d_w (+)= d_y^T x of two weights, in one launch.
void check_gradients(const cuda::WeightGradientTile& tile, std::int64_t rows, bool accumulate) {
  const std::int64_t m[] = {72, 264}, n[] = {200, 136};
  const std::string source = fmt::format(
      // The emulator's own header of that name is the kernel in plain loops.
      "#include \"{}/templates/cuda/matmul/weight_gradients.cuh\"\nnamespace hydrac {{\n"
      "extern \"C\" __global__ void kernel(const TensorMap d_y_1, const TensorMap x_1, const TensorMap "
      "d_y_2, "
      "const TensorMap x_2, float* d_w_1, float* d_w_2) {{\n"
      "  using Config = cuda::WeightGradientsConfig<bf16, {}, {}, cuda::WeightGradientTile{{{}, {}, {}, "
      "1}}>;\n"
      "  const cuda::WeightGradient gradients[] = {{{{&d_y_1, &x_1, d_w_1, 72, 200}}, "
      "{{&d_y_2, &x_2, d_w_2, 264, 136}}}};\n"
      "  cuda::weight_gradients<Config>(gradients);\n}}\n}}\nusing hydrac::kernel;\n",
      test::source_dir(), rows, accumulate, tile.consumers, tile.columns, tile.stages);
  std::vector<bf16> d_y[2], x[2];
  std::vector<float> d_w[2], expected[2];
  TensorMap maps[4];
  int tiles = 0;
  for (int i = 0; i < 2; ++i) {
    d_y[i] = numbers(rows, m[i], i), x[i] = numbers(rows, n[i], 5 + i);
    maps[2 * i] = map_of(d_y[i], cuda::weight_gradients_map(rows, m[i]));
    maps[2 * i + 1] = map_of(x[i], cuda::weight_gradients_map(rows, n[i]));
    d_w[i].assign(static_cast<std::size_t>(m[i] * n[i]), 3.0f);
    tiles += weight_gradient_tiles(m[i], n[i], tile);
    for (std::int64_t j = 0; j < m[i] * n[i]; ++j) {
      float sum = accumulate ? 3.0f : 0.0f;
      for (std::int64_t r = 0; r < rows; ++r)
        sum += to_float(d_y[i][r * m[i] + j / n[i]]) * to_float(x[i][r * n[i] + j % n[i]]);
      expected[i].push_back(sum);
    }
  }
  float *first = d_w[0].data(), *second = d_w[1].data();
  EmulatedKernels kernels(source, {"kernel"});
  kernels.launch_both_orders("kernel",
                             {{static_cast<unsigned>(tiles), 1, 1},
                              {static_cast<unsigned>(tile.threads()), 1, 1},
                              static_cast<std::uint64_t>(tile.shared_bytes())},
                             addresses(maps[0], maps[1], maps[2], maps[3], first, second),
                             std::vector{bytes_of(d_w[0]), bytes_of(d_w[1])});
  EXPECT_EQ(d_w[0], expected[0]);
  EXPECT_EQ(d_w[1], expected[1]);
}

TEST(EmulatedWeightGradients, OfTilesThatAreNotSplit) {
  check_gradients({1, 128, 8, 1}, 200, false);
  check_gradients({2, 128, 3, 1}, 330, true);
}

}  // namespace
}  // namespace hydrac::emulation
