#include "runtime/data/val_split.h"

#include <algorithm>
#include <cmath>

namespace hydrac::runtime {

int64_t training_part(int64_t size, double val_fraction) {
  return static_cast<int64_t>(std::floor(static_cast<double>(size) * (1.0 - val_fraction)));
}

std::optional<double> smallest_val_fraction(std::span<const int64_t> sizes, int64_t needed) {
  const auto leaves_enough = [&](double fraction) {
    return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) {
      const int64_t train = training_part(size, fraction);
      return train >= needed && size - train >= needed;
    });
  };
  constexpr double kMost = 0.5;  // of data.val_fraction
  for (double one = 1e5; one >= 100; one /= 10) {
    for (int digits = 10; digits < 100; ++digits) {
      const double fraction = digits / one;
      if (fraction <= kMost && leaves_enough(fraction)) return fraction;
    }
  }
  return std::nullopt;
}

}  // namespace hydrac::runtime
