#include "oracle/job/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace hydrac::oracle {
namespace {

using Numbers = std::vector<double>;

Numbers quantized(Numbers numbers, bool is_signed) {
  quantize_block(numbers.data(), static_cast<std::int64_t>(numbers.size()), is_signed);
  return numbers;
}

void expect_equal(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << i;
}

// From 0.1 to 1 there are 64 values of each sign, 0.9 / 64 apart; from 0.01 to 0.1 32.
TEST(Quantize, TakesTheNearestValueOfTheMap) {
  expect_equal(
      quantized({2, -1, 0.5, 0.1, 0}, true),
      {2, -2 * (0.1 + 0.9 * 28.5 / 64), 2 * (0.1 + 0.9 * 10.5 / 64), 2 * (0.01 + 0.09 * 14.5 / 32), 0});
  // -1 itself has no code.
  expect_equal(quantized({-4}, true), {-4 * (0.1 + 0.9 * 63.5 / 64)});
  expect_equal(quantized({4, 2}, false), {4, 4 * (0.1 + 0.9 * 56.5 / 128)});
}

TEST(Quantize, MakesZerosOfWhatIsSmallOnlyWithASign) {
  expect_equal(quantized({1, 2.7e-7, 2.8e-7, -2.7e-7}, true), {1, 0, 5.5e-7, 0});
  expect_equal(quantized({1, 1e-9, 0}, false), {1, 3.25e-7, 0});
}

TEST(Quantize, MakesZerosOfABlockThatIsHardlyMore) {
  EXPECT_EQ(quantized({1e-39, -1e-40}, true), (Numbers{0, 0}));
}

}  // namespace
}  // namespace hydrac::oracle
