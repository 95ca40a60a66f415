#include "oracle/job/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hydrac::oracle {

namespace {

// The middles of evenly spaced buckets between a tenth of each power of ten and itself, from 1e-6 to 1: twice
// as many as for the power before, of 1 without signs, 2 for 1e-6; and 0 and 1.
std::vector<double> make_map(bool is_signed) {
  std::vector<double> map = {0, 1};
  std::int64_t buckets = is_signed ? 1 : 2;
  for (const double top : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0}) {
    for (std::int64_t i = 0; i < buckets; ++i) {
      const double middle = (static_cast<double>(i) + 0.5) / static_cast<double>(buckets);
      map.push_back(top * (0.1 + 0.9 * middle));
      if (is_signed) map.push_back(-map.back());
    }
    buckets *= 2;
  }
  std::sort(map.begin(), map.end());
  return map;
}

double nearest(const std::vector<double>& map, double x) {
  const auto above = std::lower_bound(map.begin(), map.end(), x);
  if (above == map.begin()) return map.front();
  if (above == map.end()) return map.back();
  return *above - x < x - *(above - 1) ? *above : *(above - 1);
}

}  // namespace

void quantize_block(double* numbers, std::int64_t count, bool is_signed) {
  static const std::vector<double> with_signs = make_map(true), without = make_map(false);
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(numbers[i]));
  const bool vanishes = largest < static_cast<double>(std::numeric_limits<float>::min());
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = vanishes ? 0 : numbers[i] / largest;
    const double value = is_signed ? nearest(with_signs, x)
                         : x > 0   ? std::max(nearest(without, x), without[1])
                                   : 0;
    numbers[i] = value * largest;
  }
}

}  // namespace hydrac::oracle
