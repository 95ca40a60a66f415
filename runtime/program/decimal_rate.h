// A learning rate as a decimal number of few digits.
#pragma once
#include <cmath>

namespace hydrac::runtime {

// Whole numbers that float32 holds exactly, whose quotient in float64 is the number that "3.2e-4" in a spec
// parses to.
struct DecimalRate {
  float digits = 0, unit = 1;

  double value() const { return static_cast<double>(digits) / static_cast<double>(unit); }
  bool operator==(const DecimalRate&) const = default;
};

// `rate` with so many significant digits, fewer below 1e-10 times ten to the power of them.
inline DecimalRate decimal_rate(double rate, int significant = 3) {
  constexpr double kLargestUnit = 1e10;  // a larger power of ten is no float32
  double least = 1, unit = 1;
  for (int digit = 1; digit < significant; ++digit) least *= 10;
  while (rate * unit < least && unit < kLargestUnit) unit *= 10;
  return {static_cast<float>(std::round(rate * unit)), static_cast<float>(unit)};
}

}  // namespace hydrac::runtime
