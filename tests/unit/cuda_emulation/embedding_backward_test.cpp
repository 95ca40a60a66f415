// The embedding's gradient on CUDA, emulated, against a plain loop in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "cuda/embedding_geometry.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"
#include "runtime/cuda/token_order.h"

namespace hydrac::emulation {
namespace {

using cuda::EmbeddingGradient;

template <typename T>
constexpr const char* kName = "float";
template <>
constexpr const char* kName<bf16> = "hydrac::bf16";
template <>
constexpr const char* kName<f16> = "hydrac::f16";

template <typename T>
constexpr double kRounding = 0x1p-24;  // of storing a number, relative
template <>
constexpr double kRounding<bf16> = 0x1p-8;
template <>
constexpr double kRounding<f16> = 0x1p-10;

std::string source_of(const EmbeddingGradient& g, const std::string& d_y, const std::string& table) {
  return fmt::format(R"(#include "cuda/embedding_backward.cuh"
constexpr hydrac::cuda::EmbeddingGradient gradient{{{}, {}, {}, {}, {}, {}}};
extern "C" __global__ void runs(const int* ids, const int* order, const {}* d_y, {}* d_table, float* workspace) {{
  hydrac::cuda::embedding_gradient_runs<{}, {}, gradient>(ids, order, d_y, d_table, workspace);
}}
extern "C" __global__ void borders(float* workspace, {}* d_table) {{
  hydrac::cuda::embedding_gradient_borders<{}, gradient>(workspace, d_table);
}}
)",
                     g.tokens, g.width, g.vocabulary, g.d_y_bytes, g.table_bytes, g.accumulate, d_y, table,
                     d_y, table, table, table);
}

// Device memory with guards: NaNs before and behind that nobody may touch. Aligned like cuMemAlloc's.
template <typename T>
class Guarded {
 public:
  explicit Guarded(size_t size) : size_(size), lines_((size * sizeof(T) + 255) / 256 + 2) {
    std::memset(lines_.data(), 0xFF, lines_.size() * sizeof(Line));
  }
  T* data() { return reinterpret_cast<T*>(lines_.data() + 1); }
  T& operator[](size_t i) { return data()[i]; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(lines_)); }
  bool guards_are_whole() {
    const auto all = bytes();
    const auto whole = [](std::byte b) { return b == std::byte{0xFF}; };
    return std::all_of(all.begin(), all.begin() + 256, whole) &&
           std::all_of(all.begin() + 256 + static_cast<std::ptrdiff_t>(size_ * sizeof(T)), all.end(), whole);
  }

 private:
  struct alignas(256) Line {
    std::byte bytes[256];
  };
  size_t size_;
  std::vector<Line> lines_;
};

template <typename T, typename U>
void check(const EmbeddingGradient& g, const std::function<int(std::mt19937&)>& draw) {
  ASSERT_EQ(sizeof(T), static_cast<size_t>(g.d_y_bytes));
  ASSERT_EQ(sizeof(U), static_cast<size_t>(g.table_bytes));
  EmulatedKernels kernels(source_of(g, kName<T>, kName<U>), {"runs", "borders"});
  std::mt19937 random(7);
  std::normal_distribution<float> normal;

  std::vector<int> ids(g.tokens), order(g.tokens);
  for (int& id : ids) id = draw(random);
  runtime::cuda::TokenOrder(g.vocabulary).sort(ids, order);
  const size_t width = g.width, cells = g.vocabulary * width;
  Guarded<T> d_y(g.tokens * width);
  Guarded<U> d_table(cells);
  Guarded<float> workspace(static_cast<size_t>(cuda::embedding_workspace_bytes(g)) / sizeof(float));
  std::vector<double> expected(cells, 0.0), magnitude(cells, 0.0);
  std::vector<bool> present(g.vocabulary, false);
  if (g.accumulate) {
    for (size_t i = 0; i < cells; ++i) {
      d_table[i] = from_float<U>(normal(random));
      expected[i] = to_float(d_table[i]);
      magnitude[i] = std::abs(expected[i]);
    }
  }
  for (int r = 0; r < g.tokens; ++r) {
    present[ids[r]] = true;
    for (size_t c = 0; c < width; ++c) {
      const T x = d_y[r * width + c] = from_float<T>(normal(random));
      expected[ids[r] * width + c] += to_float(x);
      magnitude[ids[r] * width + c] += std::abs(to_float(x));
    }
  }

  const int *at_ids = ids.data(), *at_order = order.data();
  const T* at_d_y = d_y.data();
  U* at_table = d_table.data();
  float* at_workspace = workspace.data();
  const auto geometry = [](cuda::EmbeddingLaunch launch) {
    return Geometry{{static_cast<unsigned>(launch.grid), 1, 1},
                    {static_cast<unsigned>(launch.threads), 1, 1}};
  };
  const std::vector written{d_table.bytes(), workspace.bytes()};
  kernels.launch_both_orders("runs", geometry(embedding_runs_launch(g)),
                             addresses(at_ids, at_order, at_d_y, at_table, at_workspace), written);
  kernels.launch_both_orders("borders", geometry(embedding_borders_launch(g)),
                             addresses(at_workspace, at_table), written);

  EXPECT_TRUE(d_table.guards_are_whole());
  EXPECT_TRUE(workspace.guards_are_whole());
  for (size_t i = 0; i < cells; ++i) {
    const double found = to_float(d_table[i]);
    const double bound =
        present[i / width] ? kRounding<U> * std::abs(expected[i]) + 1e-6 * magnitude[i] : 0.0;
    ASSERT_LE(std::abs(found - expected[i]), bound)
        << "id " << i / width << ", column " << i % width << ": " << found << " instead of " << expected[i];
  }
}

// Like characters of text: the most frequent id owns 18% of the tokens, half of the ids are rare or absent.
int character(std::mt19937& random) {
  static const std::vector<double> weights = [] {
    std::vector<double> list(65);
    for (int i = 0; i < 65; ++i) list[i * 29 % 65] = i == 0 ? 18.0 : 60.0 / (i * i);
    return list;
  }();
  static std::discrete_distribution<int> draw(weights.begin(), weights.end());
  return draw(random);
}

// Like words: Zipf's law over 5,000 ids.
int word(std::mt19937& random) {
  const double u = std::uniform_real_distribution<double>(0, std::log(5000.0))(random);
  return static_cast<int>(std::exp(u)) % 5000;
}

int seven(std::mt19937&) {
  return 7;
}

TEST(EmbeddingBackward, AFewSkewedIds) {
  check<bf16, float>({16384, 48, 65, 2, 4, false}, character);
  check<f16, float>({4099, 96, 65, 2, 4, true}, character);
}

TEST(EmbeddingBackward, ManyShortRuns) {
  check<bf16, float>({3000, 64, 5000, 2, 4, true}, word);
  check<float, float>({3000, 32, 5003, 4, 4, false}, word);
  check<bf16, bf16>({2048, 64, 5000, 2, 2, false}, word);
}

TEST(EmbeddingBackward, AllTokensAreOneId) {
  check<bf16, float>({16384, 16, 9, 2, 4, false}, seven);
  check<float, float>({17000, 24, 9, 4, 4, true}, seven);  // longer than what one look at the chunks sees
}

TEST(EmbeddingBackward, ASingleToken) {
  check<float, float>({1, 40, 100, 4, 4, false}, seven);
  check<bf16, float>({1, 40, 100, 2, 4, true}, seven);
}

// Ids that stand once each: every run begins and ends in its chunk.
TEST(EmbeddingBackward, EveryIdOnce) {
  int next = 0;
  check<float, float>({512, 8, 512, 4, 4, false}, [&](std::mt19937&) { return (next++ * 77) % 512; });
}

// Runs as long as chunks, so that they end where chunks end.
TEST(EmbeddingBackward, RunsEndAtBorders) {
  int next = 0;
  check<float, float>({512, 8, 40, 4, 4, false}, [&](std::mt19937&) { return next++ / 16; });
  next = 0;
  check<float, float>({520, 8, 40, 4, 4, true}, [&](std::mt19937&) { return next++ / 48; });
}

TEST(EmbeddingBackward, OddWidths) {
  check<bf16, float>({1000, 37, 65, 2, 4, false}, character);
  check<bf16, bf16>({1000, 1, 65, 2, 2, true}, character);
  check<f16, f16>({333, 100, 65, 2, 2, false}, character);
  check<float, float>({200, 1030, 65, 4, 4, false}, character);  // 515 vectors of 2: three blocks a chunk
}

TEST(EmbeddingBackward, WideRowsAreSharedByBlocks) {
  check<bf16, float>({300, 2056, 65, 2, 4, true}, character);
}

TEST(EmbeddingBackward, ChunksGrowWithTheBatch) {
  EXPECT_EQ(cuda::embedding_tile({1000, 768, 65, 2, 4, true}).chunk, 16);
  EXPECT_EQ(cuda::embedding_tile({65536, 768, 65, 2, 4, true}).chunk, 64);
  EXPECT_EQ(cuda::embedding_tile({1000000, 768, 65, 2, 4, true}).chunk, 128);
  check<bf16, float>({140000, 4, 65, 2, 4, true}, character);
}

// What is known by heart of a launch: 65,536 x 768 of gpt2-124m.
TEST(EmbeddingBackward, GeometryOfGpt2) {
  constexpr EmbeddingGradient g{65536, 768, 50304, 2, 4, false};
  EXPECT_EQ(embedding_runs_launch(g).threads, 192);
  EXPECT_EQ(embedding_runs_launch(g).grid, 1024 + 786);
  EXPECT_EQ(embedding_borders_launch(g).threads, 256);
  EXPECT_EQ(embedding_borders_launch(g).grid, 256 * 6);
  EXPECT_EQ(cuda::embedding_workspace_bytes(g), 2 * 1024 * 769 * 4);
}

}  // namespace
}  // namespace hydrac::emulation
