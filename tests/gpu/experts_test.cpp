// The kernels of mixtures of experts on a real GPU, against float64: odd numbers of experts, some without
// rows; every run gives the same bits, and rows behind the last expert's stay as they are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "cuda/expert_geometry.h"
#include "cuda/matmul/expert_gradients.h"
#include "cuda/matmul/geometry.h"
#include "cuda/matmul/plain_tile.h"
#include "cuda/types.cuh"
#include "runtime/cuda/tensor_map.h"
#include "targets/cuda/kernels.h"
#include "targets/device_code/module.h"
#include "tests/gpu/gpu_test.h"

namespace hydrac::test {
namespace {

using cuda::kExpertRows;
using runtime::cuda::DeviceBuffer;
using runtime::cuda::Event;

// Rows of each expert, in units of 128.
using Units = std::vector<int>;

Units random_units(int experts) {
  std::mt19937 random(static_cast<unsigned>(experts));
  Units units;
  for (int e = 0; e < experts; ++e) units.push_back(static_cast<int>(random() % 3));
  return units;
}
Units all_in(int expert, int experts, int units) {
  Units result(static_cast<std::size_t>(experts));
  result[static_cast<std::size_t>(expert)] = units;
  return result;
}
std::vector<int> offsets_of(const Units& units) {
  std::vector<int> offsets{0};
  for (const int count : units) offsets.push_back(offsets.back() + count * kExpertRows);
  return offsets;
}

template <typename T>
constexpr const char* kName = "float";
template <>
constexpr const char* kName<bf16> = "bf16";
template <>
constexpr const char* kName<f16> = "f16";

template <typename T>
std::vector<T> random_numbers(std::int64_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values;
  constexpr std::int64_t period = 999'983;  // drawing is slow; a prime this large lines up with no stride
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(i < period ? from_float<T>(scale * normal(random))
                                : values[static_cast<std::size_t>(i - period)]);
  return values;
}

// True of memory that no kernel has written.
template <typename T>
bool is_poison(const T& x) {
  T poison;
  std::memset(&poison, 0xFF, sizeof poison);
  return std::memcmp(&x, &poison, sizeof x) == 0;
}

// A kernel's text, and how it is launched.
struct Source {
  std::string parameters, body, helpers = {};
  std::string header;
  int threads = 0, cluster = 1;
  std::int64_t blocks = 0, shared_bytes = 0;
};

class GpuExperts : public GpuTest {
 protected:
  device_code::Module module_of(const std::string& source) const {
    device_code::CompileRequest request;
    request.source = source;
    request.capability = capability();
    request.headers = targets::device_headers();
    request.options = {"--device-as-default-execution-space", "--fmad=false"};
    return device_code::Module(device_code::compile(request).image);
  }
  device_code::Module module_of(const Source& s) const {
    return module_of(fmt::format(
        "#include \"{}\"\n#include \"cuda/vector.cuh\"\nnamespace hydrac {{\n{}\n"
        "extern \"C\" __global__ void {}__launch_bounds__({}) kernel({}) {{\n  {}\n}}\n}}\n",
        s.header, s.helpers, s.cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", s.cluster) : "",
        s.threads, s.parameters, s.body));
  }
  template <typename... Arguments>
  void run(const device_code::Module& module, const Source& s, const Arguments&... arguments) const {
    device_code::LaunchShape shape;
    shape.grid.x = s.blocks, shape.block.x = s.threads;
    shape.dynamic_shared_bytes = s.shared_bytes;
    shape.overlap_previous = true;
    void* addresses[] = {const_cast<Arguments*>(&arguments)...};
    device_code::launch(module.kernel("kernel"), shape, addresses, *stream);
  }
  // Median milliseconds of `work`, when the GPU has its clock.
  template <typename Work>
  double time_ms(const Work& work) const {
    std::vector<double> times;
    for (int round = 0; round < 30; ++round) {
      const Event start(Event::Use::timing), end(Event::Use::timing);
      start.record(*stream);
      for (int i = 0; i < 3; ++i) work();
      end.record(*stream);
      end.synchronize();
      times.push_back(end.ms_since(start) / 3);
    }
    times.erase(times.begin(), times.begin() + 10);
    std::ranges::sort(times);
    return times[times.size() / 2];
  }
};

// y [rows,n] = x [rows,k] . b on wgmma; paired: the products of columns c and c + n / 2.
struct Problem {
  int experts;
  std::int64_t rows, n, k;
  bool b_transposed, paired = false;

  cuda::MatmulProblem matmul(const std::string& type) const {
    return {.chip = cuda::kHopper,
            .is_bf16 = type == "bf16",
            .b_transposed = b_transposed,
            .m = rows,
            .n = n,
            .k = k,
            .paired = paired,
            .sums = 0,
            .experts = experts};
  }
  std::int64_t columns() const { return paired ? n / 2 : n; }
};

Source wgmma_source(const Problem& p, const std::string& type) {
  const cuda::MatmulProblem problem = p.matmul(type);
  const cuda::MatmulTile tile = matmul_tile(problem, cuda::MatmulSchedule::persistent);
  const cuda::MatmulLaunch launch = matmul_launch(problem, tile);
  Source s{.header = "cuda/matmul/matmul.cuh"};
  s.threads = launch.threads, s.cluster = launch.cluster, s.blocks = launch.grid;
  s.shared_bytes = static_cast<std::int64_t>(launch.shared_bytes);
  s.helpers = fmt::format(
      "struct Epilogue {{\n  using T = {0};\n  static constexpr int sums = 0;\n  struct Operands {{}};\n  T* "
      "y;\n"
      "  void begin(int) {{}}\n  Operands load(std::int64_t, int) const {{ return {{}}; }}\n"
      "  void operator()(std::int64_t r, int c, const Vector<T, 8>& values, const Operands&) {{\n"
      "    store(y + r * {1} + c, values);\n  }}\n"
      "  void operator()(std::int64_t r, int c, const Vector<T, 8>& first, const Vector<T, 8>& second,\n"
      "                  const Operands&) {{\n    float out[8];\n"
      "    for (int j = 0; j < 8; ++j) out[j] = element(first, j) * element(second, j);\n"
      "    store_columns<8>(y + r * {1} + c, out);\n  }}\n}};",
      type, p.columns());
  s.parameters = fmt::format(
      "const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap b, const int* offsets, {}* y",
      type);
  s.body = fmt::format(
      "using Config = cuda::MatmulConfig<{}, {}, {}, {}, {}, "
      "cuda::MatmulTile{{cuda::MatmulSchedule::persistent, "
      "{}, {}, {}, {}}}, 0, {}>;\n  Epilogue epilogue{{y}};\n"
      "  cuda::grouped_matmul<Config>(x, b, offsets, epilogue);",
      type, p.n, p.k, p.b_transposed, p.paired, tile.rows, tile.panels, tile.stages, tile.cluster, p.experts);
  return s;
}

Source plain_source(const Problem& p, const std::string& type, bool uses_mma) {
  Source s{.header = "cuda/matmul/plain_experts.cuh"};
  s.threads = cuda::kPlainThreads, s.blocks = cuda::plain_matmul_blocks(p.rows, p.n);
  s.shared_bytes = cuda::kPlainSharedBytes;
  s.parameters = fmt::format("const {0}* x, const {0}* b, const int* offsets, {0}* y", type);
  s.body = fmt::format("cuda::plain_expert_matmul<{}, {}, {}, {}, {}, {}>(x, b, offsets, y);", type,
                       p.experts, p.n, p.k, p.b_transposed, uses_mma);
  return s;
}

runtime::cuda::MatrixMap map_of(const cuda::MatmulMap& map) {
  return {map.size[1], map.size[0], map.box[1], map.box[0]};
}
template <typename T>
TensorMap tensor_map(const DeviceBuffer& matrix, const cuda::MatmulMap& map) {
  return runtime::cuda::tensor_map(reinterpret_cast<const T*>(matrix.data()), map_of(map));
}

// The largest of errors over the largest of numbers, of every 17th row.
template <typename T>
double error_of(const Problem& p, const std::vector<int>& offsets, const std::vector<T>& x,
                const std::vector<T>& b, const std::vector<T>& y) {
  const auto product = [&](std::int64_t expert, std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < p.k; ++i) {
      const std::int64_t at =
          p.b_transposed ? (expert * p.n + column) * p.k + i : (expert * p.k + i) * p.n + column;
      sum += static_cast<double>(to_float(x[row * p.k + i])) * to_float(b[at]);
    }
    return sum;
  };
  double error = 0, size = 1e-30;
  for (int e = 0; e < p.experts; ++e) {
    for (std::int64_t row = offsets[e]; row < offsets[e + 1]; row += 17) {
      for (std::int64_t c = 0; c < p.columns(); ++c) {
        double wanted = product(e, row, c);
        if (p.paired) wanted *= product(e, row, c + p.columns());
        const double off = std::fabs(to_float(y[row * p.columns() + c]) - wanted);
        if (!(off <= error)) error = off;  // NaN too
        size = std::max(size, std::fabs(wanted));
      }
    }
  }
  return error / size;
}

template <typename T>
constexpr double kTolerance = 1e-5;
template <>
constexpr double kTolerance<bf16> = 1.2e-2;
template <>
constexpr double kTolerance<f16> = 1.5e-3;

class GpuExpertMatmuls : public GpuExperts {
 protected:
  template <typename T>
  void check(const Units& units, std::int64_t n, std::int64_t k, bool b_transposed, bool paired = false) {
    const std::vector<int> offsets = offsets_of(units);
    const Problem p{
        static_cast<int>(units.size()), offsets.back() + 2 * kExpertRows, n, k, b_transposed, paired};
    SCOPED_TRACE(fmt::format("{} {} experts, {} rows, n {}, k {}, {}", kName<T>, p.experts, offsets.back(), n,
                             k, b_transposed ? "[n,k]" : "[k,n]"));
    const float scale = 1 / std::sqrt(static_cast<float>(k));
    const std::vector<T> x = random_numbers<T>(p.rows * k, 1),
                         b = random_numbers<T>(p.experts * n * k, 2, scale);
    const DeviceBuffer on_x = on_device(x), on_b = on_device(b), on_offsets = on_device(offsets);
    const auto expect_right = [&](const Source& source, const auto& left, const auto& right,
                                  const char* kind) {
      const device_code::Module module = module_of(source);
      std::vector<T> first;
      for (int time = 0; time < 2; ++time) {
        const DeviceBuffer y = on_device(std::vector<std::uint8_t>(p.rows * p.columns() * sizeof(T), 0xFF));
        run(module, source, left, right, on_offsets.data(), y.data());
        const std::vector<T> found = on_host<T>(y);
        if (time == 0) {
          first = found;
          EXPECT_LT(error_of(p, offsets, x, b, found), kTolerance<T>) << kind;
          for (std::size_t i = offsets.back() * p.columns(); i < found.size(); ++i)
            ASSERT_TRUE(is_poison(found[i])) << kind << " wrote behind the last row";
        }
        EXPECT_EQ(std::memcmp(first.data(), found.data(), found.size() * sizeof(T)), 0) << kind << " differs";
      }
    };
    const bool uses_mma = cuda::plain_uses_mma(capability(), std::is_same_v<T, bf16>, sizeof(T));
    if (!paired) expect_right(plain_source(p, kName<T>, uses_mma), on_x.data(), on_b.data(), "plain");
    if constexpr (sizeof(T) == 2) {
      const cuda::MatmulProblem problem = p.matmul(kName<T>);
      if (capability() != 90 || !matmul_supports(problem, cuda::MatmulSchedule::persistent)) return;
      const cuda::MatmulTile tile = matmul_tile(problem, cuda::MatmulSchedule::persistent);
      expect_right(wgmma_source(p, kName<T>), tensor_map<T>(on_x, matmul_map_a(problem, tile)),
                   tensor_map<T>(on_b, matmul_map_b(problem)), "wgmma");
    }
  }
};

TEST_F(GpuExpertMatmuls, AreRightForAnyDistributionOfRows) {
  check<bf16>({3}, 384, 200, true);
  check<bf16>(random_units(8), 136, 72, true);
  check<bf16>(random_units(64), 256, 136, false);
  check<bf16>(random_units(128), 384, 128, true, true);
  check<bf16>(all_in(5, 64, 40), 384, 328, true);
  check<bf16>(all_in(127, 128, 9), 136, 328, false);
  check<f16>(random_units(64), 384, 192, false);
  check<float>(random_units(8), 132, 76, true);
  check<float>(random_units(8), 30, 18, false);
}

Source wgmma_gradient_source(const cuda::ExpertGradientsProblem& p, const cuda::ExpertGradientTile& tile,
                             const std::string& type, const std::string& gradient, bool accumulate) {
  const cuda::MatmulLaunch launch = expert_gradients_launch(p, tile);
  Source s{.header = "cuda/matmul/expert_gradients.cuh"};
  s.threads = launch.threads, s.cluster = launch.cluster, s.blocks = launch.grid;
  s.shared_bytes = static_cast<std::int64_t>(launch.shared_bytes);
  s.parameters = fmt::format(
      "const __grid_constant__ TensorMap d_y, const __grid_constant__ TensorMap x, const int* offsets, {}* "
      "d_w",
      gradient);
  s.body = fmt::format(
      "using Config = cuda::ExpertGradientsConfig<{}, {}, {}, {}, {}, {}, cuda::ExpertGradientTile{{{}, {}, "
      "{}}}>;\n"
      "  cuda::expert_gradients<Config>(d_y, x, offsets, d_w);",
      type, gradient, p.experts, p.m, p.n, accumulate, tile.columns, tile.stages, tile.cluster);
  return s;
}

Source plain_gradient_source(const cuda::ExpertGradientsProblem& p, const std::string& type,
                             const std::string& gradient, bool accumulate, bool uses_mma) {
  Source s{.header = "cuda/matmul/plain_experts.cuh"};
  s.threads = cuda::kPlainThreads, s.blocks = cuda::plain_gradient_blocks(p.experts, p.m, p.n);
  s.shared_bytes = cuda::kPlainSharedBytes;
  s.parameters = fmt::format("const {0}* d_y, const {0}* x, const int* offsets, {1}* d_w", type, gradient);
  s.body = fmt::format("cuda::plain_expert_gradients<{}, {}, {}, {}, {}, {}, {}>(d_y, x, offsets, d_w);",
                       type, gradient, p.experts, p.m, p.n, accumulate, uses_mma);
  return s;
}

class GpuExpertGradients : public GpuExperts {
 protected:
  // Every seventh row of each gradient: a float64 reference of all would take long.
  template <typename T, typename G>
  static double error_of(const cuda::ExpertGradientsProblem& p, const std::vector<int>& offsets,
                         const std::vector<T>& d_y, const std::vector<T>& x, const std::vector<G>& before,
                         const std::vector<G>& found) {
    double error = 0, size = 1e-30;
    for (int e = 0; e < p.experts; ++e) {
      for (std::int64_t i = e % 7; i < p.m; i += 7) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          const std::int64_t at = (e * p.m + i) * p.n + j;
          double wanted = before.empty() ? 0 : to_float(before[at]);
          for (std::int64_t row = offsets[e]; row < offsets[e + 1]; ++row)
            wanted += static_cast<double>(to_float(d_y[row * p.m + i])) * to_float(x[row * p.n + j]);
          const double off = std::fabs(to_float(found[at]) - wanted);
          if (!(off <= error)) error = off;  // NaN too
          size = std::max(size, std::fabs(wanted));
        }
      }
    }
    return error / size;
  }

  template <typename T, typename G>
  void check(const Units& units, std::int64_t m, std::int64_t n, bool accumulate) {
    const std::vector<int> offsets = offsets_of(units);
    const cuda::ExpertGradientsProblem p{cuda::kHopper,
                                         std::is_same_v<T, bf16>,
                                         offsets.back() + 2 * kExpertRows,
                                         static_cast<int>(units.size()),
                                         m,
                                         n};
    SCOPED_TRACE(fmt::format("{} {} experts, {} rows, [{},{}]", kName<T>, p.experts, offsets.back(), m, n));
    const std::vector<T> d_y = random_numbers<T>(p.rows * m, 1), x = random_numbers<T>(p.rows * n, 2);
    const std::vector<G> before = random_numbers<G>(accumulate ? p.experts * m * n : 0, 3);
    const DeviceBuffer on_d_y = on_device(d_y), on_x = on_device(x), on_offsets = on_device(offsets);
    const auto expect_right = [&](const Source& source, const auto& left, const auto& right,
                                  const char* kind) {
      const device_code::Module module = module_of(source);
      std::vector<G> first;
      for (int time = 0; time < 2; ++time) {
        const DeviceBuffer d_w =
            accumulate ? on_device(before)
                       : on_device(std::vector<std::uint8_t>(p.experts * m * n * sizeof(G), 0xFF));
        run(module, source, left, right, on_offsets.data(), d_w.data());
        const std::vector<G> found = on_host<G>(d_w);
        if (time == 0) {
          first = found;
          EXPECT_LT(error_of(p, offsets, d_y, x, before, found), kTolerance<G>) << kind;
        }
        EXPECT_EQ(std::memcmp(first.data(), found.data(), found.size() * sizeof(G)), 0) << kind << " differs";
      }
    };
    const bool uses_mma = cuda::plain_uses_mma(capability(), p.is_bf16, sizeof(T));
    expect_right(plain_gradient_source(p, kName<T>, kName<G>, accumulate, uses_mma), on_d_y.data(),
                 on_x.data(), "plain");
    if constexpr (sizeof(T) == 2) {
      if (capability() != 90 || !expert_gradients_support(p)) return;
      const cuda::ExpertGradientTile tile = expert_gradients_tile(p);
      expect_right(wgmma_gradient_source(p, tile, kName<T>, kName<G>, accumulate),
                   tensor_map<T>(on_d_y, expert_gradients_map_d_y(p)),
                   tensor_map<T>(on_x, expert_gradients_map_x(p, tile)), "wgmma");
    }
  }
};

TEST_F(GpuExpertGradients, AreRightForAnyDistributionOfRows) {
  check<bf16, float>({3}, 384, 200, false);
  check<bf16, float>(random_units(8), 136, 192, true);
  check<bf16, float>(random_units(64), 72, 136, false);
  check<bf16, float>(random_units(128), 264, 128, true);
  check<bf16, float>(all_in(5, 64, 40), 136, 192, false);
  check<f16, f16>(random_units(8), 136, 384, false);
  check<float, float>(random_units(8), 30, 50, true);
}

class GpuExpertRows : public GpuExperts {
 protected:
  static std::string source_of(const cuda::ExpertChoices& c) {
    return fmt::format(
        "#include \"cuda/expert_rows.cuh\"\n"
        "constexpr hydrac::cuda::ExpertChoices c{{{}, {}, {}, {}}};\n"
        "extern \"C\" __global__ void count(const int* chosen, float* counts) {{\n"
        "  hydrac::cuda::count_experts<c>(chosen, counts);\n}}\n"
        "extern \"C\" __global__ void place(const int* chosen, const float* counts, int* source, int* "
        "place,\n"
        "                                   int* offsets) {{\n"
        "  hydrac::cuda::place_experts<c>(chosen, counts, source, place, offsets);\n}}\n",
        c.choices, c.experts, c.unit, c.rows);
  }
  static cuda::ExpertChoices choices_of(int choices, int experts) {
    return {choices, experts, kExpertRows,
            (choices + experts * (kExpertRows - 1) + kExpertRows - 1) / kExpertRows * kExpertRows};
  }
  struct Result {
    DeviceBuffer counts, source, place, offsets;
    explicit Result(const cuda::ExpertChoices& c)
        : counts(expert_workspace_bytes(c)),
          source(std::int64_t{4} * c.rows),
          place(std::int64_t{4} * c.choices),
          offsets(std::int64_t{4} * (c.experts + 1)) {}
  };
  void sort(const device_code::Module& module, const cuda::ExpertChoices& c, const DeviceBuffer& chosen,
            Result& to) const {
    device_code::LaunchShape shape;
    shape.grid.x = expert_blocks(c), shape.block.x = cuda::kExpertThreads;
    void *chosen_at = chosen.data(), *counts = to.counts.data(), *source = to.source.data(),
         *place = to.place.data(), *offsets = to.offsets.data();
    void *count_arguments[] = {&chosen_at, &counts},
         *place_arguments[] = {&chosen_at, &counts, &source, &place, &offsets};
    device_code::launch(module.kernel("count"), shape, count_arguments, *stream);
    device_code::launch(module.kernel("place"), shape, place_arguments, *stream);
  }
  static std::vector<int> random_choices(int choices, int experts) {
    std::mt19937 random(7);
    std::vector<int> chosen;
    for (int i = 0; i < choices; ++i) chosen.push_back(static_cast<int>(random() % experts));
    return chosen;
  }
};

TEST_F(GpuExpertRows, AreSortedByExpertInTheOrderOfTheTokens) {
  for (const auto& [choices, experts] :
       {std::pair{1, 1}, {1000, 8}, {100'003, 64}, {262'144, 128}, {65'536, 256}}) {
    const cuda::ExpertChoices c = choices_of(choices, experts);
    const std::vector<int> chosen = random_choices(choices, experts);
    Result result(c);
    sort(module_of(source_of(c)), c, on_device(chosen), result);
    std::vector<int> source(static_cast<std::size_t>(c.rows), -1), place(chosen.size()), offsets{0};
    std::vector<std::vector<int>> of_expert(static_cast<std::size_t>(experts));
    for (int i = 0; i < choices; ++i) of_expert[chosen[i]].push_back(i);
    for (const std::vector<int>& own : of_expert) {
      for (std::size_t i = 0; i < own.size(); ++i) {
        source[offsets.back() + i] = own[i];
        place[own[i]] = offsets.back() + static_cast<int>(i);
      }
      offsets.push_back((offsets.back() + static_cast<int>(own.size()) + kExpertRows - 1) / kExpertRows *
                        kExpertRows);
    }
    EXPECT_EQ(on_host<int>(result.source), source) << choices;
    EXPECT_EQ(on_host<int>(result.place), place) << choices;
    EXPECT_EQ(on_host<int>(result.offsets), offsets) << choices;
  }
}

// One layer, width 2048, 128 experts of 768, top 8 of 32,768 tokens, chosen at random.
class ExpertTimes : public GpuExpertRows {
 protected:
  static constexpr int kExperts = 128, kChoices = 32'768 * 8, kWidth = 2048, kInner = 768;

  void print(const std::string& what, double ms, double columns) const {
    std::printf("TIME %-44s %7.3f ms, %.0f TFLOP/s\n", what.c_str(), ms, 2e-9 * kChoices * columns / ms);
    std::fflush(stdout);
  }
  DeviceBuffer random_matrix(std::int64_t elements, float scale) const {
    return on_device(random_numbers<bf16>(elements, 3, scale));
  }
};

TEST_F(ExpertTimes, DISABLED_Timing) {
  const cuda::ExpertChoices c = choices_of(kChoices, kExperts);
  const device_code::Module rows = module_of(source_of(c));
  const DeviceBuffer chosen = on_device(random_choices(kChoices, kExperts));
  Result result(c);
  std::printf("TIME rows: %.1f us\n", 1e3 * time_ms([&] { sort(rows, c, chosen, result); }));
  const DeviceBuffer wide = random_matrix(std::int64_t{c.rows} * kWidth, 1),
                     inner = random_matrix(std::int64_t{c.rows} * 2 * kInner, 1),
                     weights = random_matrix(std::int64_t{kExperts} * 2 * kInner * kWidth, 0.02F),
                     gradient(std::int64_t{kExperts} * 2 * kInner * kWidth * 4),
                     out(std::int64_t{c.rows} * kWidth * 2);
  runtime::cuda::fill_bytes(gradient.data(), 0, gradient.bytes(), *stream);
  for (const auto& [name, n, k, b_transposed, paired] :
       {std::tuple{"up, gated", 2 * kInner, kWidth, true, true},
        {"up", 2 * kInner, kWidth, true, false},
        {"down", kWidth, kInner, true, false},
        {"gradient of up's input", kWidth, 2 * kInner, false, false},
        {"gradient of down's input", kInner, kWidth, false, false}}) {
    const Problem p{kExperts, c.rows, n, k, b_transposed, paired};
    const cuda::MatmulProblem problem = p.matmul("bf16");
    const cuda::MatmulTile tile = matmul_tile(problem, cuda::MatmulSchedule::persistent);
    const DeviceBuffer& x = k == kWidth ? wide : inner;
    const Source source = wgmma_source(p, "bf16"), plain = plain_source(p, "bf16", true);
    const device_code::Module module = module_of(source), plain_module = module_of(plain);
    const TensorMap left = tensor_map<bf16>(x, matmul_map_a(problem, tile)),
                    right = tensor_map<bf16>(weights, matmul_map_b(problem));
    const double flop = static_cast<double>(n) * k;
    print(name, time_ms([&] { run(module, source, left, right, result.offsets.data(), out.data()); }), flop);
    if (!paired)
      print(fmt::format("{}, plain", name), time_ms([&] {
              run(plain_module, plain, x.data(), weights.data(), result.offsets.data(), out.data());
            }),
            flop);
  }
  for (const auto& [name, m, n] :
       {std::tuple{"gradient of up", 2 * kInner, kWidth}, {"gradient of down", kWidth, kInner}}) {
    const cuda::ExpertGradientsProblem p{cuda::kHopper, true, c.rows, kExperts, m, n};
    const DeviceBuffer &d_y = m == kWidth ? wide : inner, &x = n == kWidth ? wide : inner;
    for (const cuda::ExpertGradientTile tile :
         {cuda::ExpertGradientTile{128, 6, 2}, {192, 5, 2}, {192, 5, 1}}) {
      for (const bool accumulate : {false, true}) {
        const Source source = wgmma_gradient_source(p, tile, "bf16", "float", accumulate);
        const device_code::Module module = module_of(source);
        const TensorMap left = tensor_map<bf16>(d_y, expert_gradients_map_d_y(p)),
                        right = tensor_map<bf16>(x, expert_gradients_map_x(p, tile));
        print(fmt::format("{}, {} columns, cluster {}{}", name, tile.columns, tile.cluster,
                          accumulate ? ", +=" : ""),
              time_ms([&] { run(module, source, left, right, result.offsets.data(), gradient.data()); }),
              static_cast<double>(m) * n);
      }
    }
  }
}

}  // namespace
}  // namespace hydrac::test
