#include "runtime/data/curriculum.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/hash.h"

namespace hydrac::runtime {

double Curriculum::share(int64_t sample) const {
  if (!draws(sample)) return 0;
  const auto step = static_cast<double>(sample / samples_per_step);
  return std::sqrt(step / static_cast<double>(steps) * (1 - start * start) + start * start);
}

int64_t Curriculum::draw(int64_t sample, int64_t count, uint64_t seed) const {
  const double reach = std::ceil(share(sample) * static_cast<double>(count));
  const auto choices = static_cast<uint64_t>(std::clamp<int64_t>(static_cast<int64_t>(reach), 1, count));
  const uint64_t bits = Hash64().add("curriculum").add(seed).add(static_cast<uint64_t>(sample)).value();
  return static_cast<int64_t>(bits % choices);
}

}  // namespace hydrac::runtime
