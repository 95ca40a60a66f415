// Ownership of a tensor's slots: rank r owns the r-th owned_slots() of them whole; the last ranks may own
// fewer.
#pragma once
#include <cstdint>

namespace hydrac::runtime {

constexpr std::int64_t owned_slots(std::int64_t slots, std::int64_t ranks) {
  return (slots + ranks - 1) / ranks;
}

}  // namespace hydrac::runtime
