// What is kept of a row in a RowBuffer is what the row's next loop reads. With a plain array in its place GCC
// 12 computes this kernel wrong where its vectors have 512 bits.
#include "hydrac/row_buffer.h"

#include <gtest/gtest.h>

#include <vector>

#include "hydrac/random.h"

namespace hydrac {
namespace {

constexpr std::int64_t kRows = 80, kWidth = 96;

using Floats = std::vector<float>;

Floats numbers(std::int64_t count, int step, int modulus) {
  Floats values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(i * step % modulus) * 0.1f - static_cast<float>(modulus) * 0.05f);
  return values;
}

// As generated code has it for the gradients of a norm behind dropout.
[[gnu::noinline]] void norm_gradient(const float* d_y, const std::uint32_t* step, const std::uint32_t* seed,
                                     const float* d_x, const float* rstd, const float* x, const float* weight,
                                     const float* d_residual, float* d_sum, int layer) {
  const std::uint32_t key = random_key(seed[0], step[0], 262144 + layer);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const float* d_y_row = d_y + r * kWidth;
    const float* d_x_row = d_x + r * kWidth;
    const float* x_row = x + r * kWidth;
    const float* d_residual_row = d_residual + r * kWidth;
    float* d_sum_row = d_sum + r * kWidth;
    RowBuffer<kWidth> kept;
    const float row_rstd = rstd[r];
    float sum_g_xhat = 0.0f;
#pragma omp simd reduction(+ : sum_g_xhat)
    for (int c = 0; c < kWidth; ++c) {
      const float xhat = x_row[c] * row_rstd;
      const float dropped = random_16_bits(key, r * kWidth + c) < 6553 ? 0.0f : d_y_row[c] * 1.1111112f;
      const float g = (dropped + d_x_row[c]) * weight[c];
      kept[c] = g;
      sum_g_xhat += g * xhat;
    }
    const float mean_g_xhat = sum_g_xhat * (1.0f / kWidth);
#pragma omp simd
    for (int c = 0; c < kWidth; ++c) {
      const float xhat = x_row[c] * row_rstd;
      d_sum_row[c] = d_residual_row[c] + row_rstd * (kept[c] - xhat * mean_g_xhat);
    }
  }
}

TEST(RowBuffer, KeepsARowFromOneLoopToTheNext) {
  const Floats d_y = numbers(kRows * kWidth, 7, 13), d_x = numbers(kRows * kWidth, 5, 11),
               x = numbers(kRows * kWidth, 3, 17), d_residual = numbers(kRows * kWidth, 13, 23),
               weight = numbers(kWidth, 11, 19), rstd(kRows, 0.5f);
  Floats d_sum(d_y.size());
  const std::uint32_t step = 3, seed = 7;
  norm_gradient(d_y.data(), &step, &seed, d_x.data(), rstd.data(), x.data(), weight.data(), d_residual.data(),
                d_sum.data(), 1);
  const std::uint32_t key = random_key(seed, step, 262145);
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::vector<double> g;
    double mean = 0;
    for (std::int64_t c = 0; c < kWidth; ++c) {
      const std::int64_t i = r * kWidth + c;
      const double dropped = random_16_bits(key, i) < 6553 ? 0.0 : d_y[i] * 1.1111112;
      g.push_back((dropped + d_x[i]) * weight[c]);
      mean += g.back() * x[i] * rstd[r] / kWidth;
    }
    for (std::int64_t c = 0; c < kWidth; ++c) {
      const std::int64_t i = r * kWidth + c;
      ASSERT_NEAR(d_sum[i], d_residual[i] + rstd[r] * (g[c] - x[i] * rstd[r] * mean), 1e-5) << r << ", " << c;
    }
  }
}

}  // namespace
}  // namespace hydrac
