// Which slots of a tensor are whole on which rank: rank r owns the r-th owned_slots() of them, the last ranks
// perhaps fewer.
#pragma once
#include <cstdint>

namespace hydrac::runtime {

constexpr std::int64_t owned_slots(std::int64_t slots, std::int64_t ranks) {
  return (slots + ranks - 1) / ranks;
}

}  // namespace hydrac::runtime
