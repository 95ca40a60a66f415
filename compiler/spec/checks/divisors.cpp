#include "spec/checks/divisors.h"

#include <algorithm>

namespace hydrac::spec {

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d * d != number) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<std::string> divisors_near(int64_t number, int64_t wanted) {
  const std::vector<int64_t> all = divisors(number);
  const auto above = std::ranges::upper_bound(all, wanted);
  std::vector<std::string> near;
  if (above != all.begin()) near.push_back(std::to_string(*std::prev(above)));
  if (above != all.end()) near.push_back(std::to_string(*above));
  return near;
}

}  // namespace hydrac::spec
