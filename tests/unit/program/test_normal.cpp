#include "runtime/program/normal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "hydrac/random.h"

namespace hydrac::runtime {
namespace {

constexpr std::uint32_t kKey = 12345;

std::vector<float> values(std::size_t count, float deviation = 1, std::uint64_t counter = 0) {
  std::vector<float> out(count);
  fill_normal(out, counter, deviation, kKey);
  return out;
}

TEST(Normal, IsTheBoxMullerTransformOfPhiloxBits) {
  const std::vector<float> out = values(200'001);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Philox2x32 bits = philox2x32(static_cast<std::uint32_t>(i / 2), 0, kKey);
    const double radius = std::sqrt(-2 * std::log(((bits.x >> 9) + 0.5) * 0x1p-23));
    const double angle = 2 * std::numbers::pi * bits.y * 0x1p-32;
    ASSERT_NEAR(out[i], radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)), 0x1p-20) << i;
  }
}

TEST(Normal, HasItsMoments) {
  const std::vector<float> out = values(1'000'000, 0.5f);
  double sum = 0, squares = 0, fourth = 0, neighbours = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = out[i] / 0.5;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    if (i > 0) neighbours += x * out[i - 1] / 0.5;
  }
  const auto n = static_cast<double>(out.size());
  EXPECT_NEAR(sum / n, 0, 5e-3);  // five standard errors
  EXPECT_NEAR(squares / n, 1, 7.1e-3);
  EXPECT_NEAR(fourth / n, 3, 5e-2);
  EXPECT_NEAR(neighbours / n, 0, 5e-3);
}

// Vector code and the loop's rest, and any number of threads, must agree: a prefix is the same whatever
// follows.
TEST(Normal, DoesNotDependOnHowManyAreWanted) {
  const std::vector<float> all = values(1037);
  for (const std::size_t count : {1, 2, 3, 16, 33, 1036}) {
    const std::vector<float> some = values(count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(some[i], all[i]) << i << " of " << count;
  }
  const std::vector<float> later = values(37, 1, 500);
  for (std::size_t i = 0; i < later.size(); ++i) ASSERT_EQ(later[i], all[1000 + i]) << i;
}

}  // namespace
}  // namespace hydrac::runtime
