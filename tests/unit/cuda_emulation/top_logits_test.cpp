// The largest logits of rows on CUDA, emulated, against sorting.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "cuda/top_geometry.h"
#include "emulated_kernels.h"

namespace hydrac::emulation {
namespace {

using cuda::kTop;

struct Found {
  std::vector<float> values, sums;
  std::vector<int> ids, drawn;
};

// `uniform`: of every row.
Found top_logits(const std::vector<float>& logits, int rows, int columns, int vocabulary,
                 float inverse_temperature, double uniform = -1) {
  EmulatedKernels kernels(fmt::format(R"(#include "cuda/top_logits.cuh"
using namespace hydrac;
extern "C" __global__ void parts(const float* logits, const float* inverse_temperature, const int* vocabulary, float* workspace) {{
  cuda::top_logits_parts<{0}>(logits, inverse_temperature, vocabulary, workspace);
}}
extern "C" __global__ void finish(const float* logits, const float* inverse_temperature, const int* vocabulary, const float* uniforms, const float* workspace, float* values, int* ids, float* sums, int* drawn) {{
  cuda::top_logits<{0}>(logits, inverse_temperature, vocabulary, uniforms, workspace, values, ids, sums, drawn);
}}
)",
                                      columns),
                          {"parts", "finish"});
  const auto count = static_cast<size_t>(rows);
  Found found{std::vector<float>(count * kTop), std::vector<float>(count), std::vector<int>(count * kTop),
              std::vector<int>(count)};
  std::vector<float> uniforms;
  for (size_t r = 0; r < count; ++r) {
    uniforms.push_back(static_cast<float>(uniform));
    uniforms.push_back(static_cast<float>(uniform - uniforms.back()));
  }
  std::vector<double> workspace(static_cast<size_t>(cuda::top_workspace_bytes(rows, columns) / 8));
  const float *at_logits = logits.data(), *at_temperature = &inverse_temperature,
              *at_uniforms = uniforms.data();
  const int* at_vocabulary = &vocabulary;
  auto* at_workspace = reinterpret_cast<float*>(workspace.data());
  float *at_values = found.values.data(), *at_sums = found.sums.data();
  int *at_ids = found.ids.data(), *at_drawn = found.drawn.data();
  const auto geometry = [](int blocks, unsigned threads) {
    return Geometry{{static_cast<unsigned>(blocks), 1, 1}, {threads, 1, 1}};
  };
  const std::vector written{bytes_of(workspace), bytes_of(found.values), bytes_of(found.ids),
                            bytes_of(found.sums), bytes_of(found.drawn)};
  kernels.launch_both_orders("parts", geometry(rows * cuda::top_parts(columns), cuda::kTopThreads),
                             addresses(at_logits, at_temperature, at_vocabulary, at_workspace), written);
  kernels.launch_both_orders("finish", geometry(rows, cuda::kSelectThreads),
                             addresses(at_logits, at_temperature, at_vocabulary, at_uniforms, at_workspace,
                                       at_values, at_ids, at_sums, at_drawn),
                             written);
  return found;
}

void check(const std::vector<float>& logits, int rows, int columns, int vocabulary,
           float inverse_temperature) {
  const Found found = top_logits(logits, rows, columns, vocabulary, inverse_temperature);
  for (int r = 0; r < rows; ++r) {
    const float* row = &logits[static_cast<size_t>(r) * static_cast<size_t>(columns)];
    std::vector<int> ids(static_cast<size_t>(std::min(vocabulary, columns)));
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](int a, int b) { return row[a] > row[b]; });
    double sum = 0;
    for (const int id : ids) sum += std::exp((double{row[id]} - row[ids[0]]) * inverse_temperature);
    EXPECT_NEAR(found.sums[static_cast<size_t>(r)], sum, 1e-5 * sum);
    EXPECT_EQ(found.drawn[static_cast<size_t>(r)], ids.empty() ? -1 : ids[0]) << "there is no number";
    for (size_t i = 0; i < kTop; ++i) {
      const size_t at = static_cast<size_t>(r) * kTop + i;
      ASSERT_EQ(found.ids[at], i < ids.size() ? ids[i] : -1) << "row " << r << ", place " << i;
      ASSERT_EQ(found.values[at], i < ids.size() ? row[ids[i]] : std::numeric_limits<float>::lowest());
    }
  }
}

std::vector<float> random_logits(int count, float step) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& x : logits) x = std::round(normal(random) / step) * step;
  return logits;
}

TEST(TopLogits, AreThoseOfASortedRow) {
  check(random_logits(2 * 9000, 1e-4f), 2, 9000, 9000, 1.0f);
  check(random_logits(2 * 9000, 0.5f), 2, 9000, 8999, 1.25f);  // many equal ones, and padding
  check(random_logits(3 * 256, 1e-3f), 3, 256, 257, 3.0f);
  check(random_logits(2 * 128, 1e-3f), 2, 128, 40, 0.5f);  // fewer than are looked for
  check(std::vector<float>(4100, -0.0f), 1, 4100, 4100, 1.0f);
  std::vector<float> ruled_out = random_logits(4097, 1e-3f);
  std::fill(ruled_out.begin(), ruled_out.end() - 20, -INFINITY);
  check(ruled_out, 1, 4097, 4097, 1.0f);
}

// Several groups a thread of the second kernel.
TEST(TopLogits, ManyGroupsOfASpan) {
  check(random_logits(17 * cuda::kTopColumns - 3, 1e-2f), 1, 17 * cuda::kTopColumns - 3,
        17 * cuda::kTopColumns - 3, 1.0f);
}

// The number falls into the share of the drawn column, but for the rounding of sums.
TEST(TopLogits, OneIsDrawnFromTheWholeRow) {
  constexpr int rows = 2, columns = 9000, vocabulary = 8990;
  constexpr float inverse_temperature = 0.5f;
  const std::vector<float> logits = random_logits(rows * columns, 1e-3f);
  for (const double uniform : {0.0, 1e-7, 0.2, 0.5, 0.77, 0.999, 1 - 0x1p-53}) {
    const Found found = top_logits(logits, rows, columns, vocabulary, inverse_temperature, uniform);
    for (int r = 0; r < rows; ++r) {
      const float* row = &logits[static_cast<size_t>(r) * columns];
      double total = 0, before = 0;
      const auto weight = [&](int c) { return std::exp(double{row[c]} * inverse_temperature); };
      for (int c = 0; c < vocabulary; ++c) total += weight(c);
      const int drawn = found.drawn[static_cast<size_t>(r)];
      ASSERT_GE(drawn, 0);
      ASSERT_LT(drawn, vocabulary);
      for (int c = 0; c < drawn; ++c) before += weight(c);
      EXPECT_LE(before / total, uniform + 1e-6) << "row " << r << ", column " << drawn;
      EXPECT_GE((before + weight(drawn)) / total, uniform - 1e-6) << "row " << r << ", column " << drawn;
    }
  }
}

TEST(TopLogits, WhatIsRuledOutIsNotDrawn) {
  std::vector<float> logits(4097, -INFINITY);
  logits[4096] = -3;
  for (const double uniform : {0.0, 0.5, 1 - 0x1p-53})
    EXPECT_EQ(top_logits(logits, 1, 4097, 4097, 1.0f, uniform).drawn[0], 4096);
}

TEST(TopLogits, OfWhatIsNoNumberHaveNoSum) {
  for (const float bad : {NAN, -NAN, INFINITY}) {
    std::vector<float> logits = random_logits(5000, 1e-3f);
    logits[4321] = bad;
    EXPECT_FALSE(std::isfinite(top_logits(logits, 1, 5000, 5000, 1.0f).sums[0])) << bad;
  }
}

}  // namespace
}  // namespace hydrac::emulation
