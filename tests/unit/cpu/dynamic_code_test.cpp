// hydrac/dynamic_code.h against the map that it stands for, as bitsandbytes' create_dynamic_map defines it.
#include "hydrac/dynamic_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hydrac {
namespace {

// Decade i from 10^(i-7) to 10^(i-6) is cut into 2^i buckets, without signs 2^(i+1), whose middles are
// values.
std::vector<double> values_of_map(bool is_signed) {
  std::vector<double> values = {0, 1};
  for (int i = 0; i < 7; ++i) {
    const int buckets = 1 << (is_signed ? i : i + 1);
    for (int j = 0; j < buckets; ++j) {
      const double value = std::pow(10.0, i - 6) * (0.1 + 0.9 * (j + 0.5) / buckets);
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

const std::vector<double> kSigned = values_of_map(true), kUnsigned = values_of_map(false);

double distance_to_nearest(const std::vector<double>& values, double y) {
  const auto above = std::lower_bound(values.begin(), values.end(), y);
  double distance = std::numeric_limits<double>::infinity();
  if (above != values.end()) distance = *above - y;
  if (above != values.begin()) distance = std::min(distance, y - *(above - 1));
  return distance;
}

TEST(DynamicCode, HasTheValuesOfTheMap) {
  ASSERT_EQ(kSigned.size(), 256u);
  ASSERT_EQ(kUnsigned.size(), 256u);
  for (std::uint32_t code = 0; code < 256; ++code) {
    EXPECT_NEAR(signed_dynamic_value(code), kSigned[code], 4e-7 * std::abs(kSigned[code])) << code;
    EXPECT_NEAR(dynamic_value(code), kUnsigned[code], 4e-7 * kUnsigned[code]) << code;
    EXPECT_EQ(signed_dynamic_code(signed_dynamic_value(code)), code);
    EXPECT_EQ(dynamic_code(dynamic_value(code)), code);
  }
}

// Every 331st float. Numbers in the middle between two values may go to either.
TEST(DynamicCode, IsTheNearestValues) {
  for (std::uint32_t bits = 0; bits <= float_bits(1.0f); bits += 331) {
    const float size = float_from_bits(bits);
    for (const float y : {size, -size}) {
      const double found = std::abs(kSigned[signed_dynamic_code(y)] - static_cast<double>(y));
      ASSERT_LE(found, distance_to_nearest(kSigned, y) * (1 + 1e-4)) << y;
    }
    const std::uint32_t code = dynamic_code(size);
    if (kUnsigned[1] / 2 < size) {
      ASSERT_LE(std::abs(kUnsigned[code] - static_cast<double>(size)),
                distance_to_nearest(kUnsigned, size) * (1 + 1e-4))
          << size;
    } else {
      ASSERT_EQ(code, size > 0.0f ? 1u : 0u) << size;
    }
  }
}

TEST(DynamicCode, TakesWhatIsNoNumberFromMinusOneToOne) {
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(signed_dynamic_code(1.0000001f), 255u);
  EXPECT_EQ(signed_dynamic_code(infinity), 255u);
  EXPECT_EQ(signed_dynamic_code(-infinity), 0u);
  EXPECT_EQ(dynamic_code(infinity), 255u);
  EXPECT_LT(signed_dynamic_code(nan), 256u);
  EXPECT_LT(dynamic_code(nan), 256u);
}

}  // namespace
}  // namespace hydrac
