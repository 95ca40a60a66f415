// Divisors: what could be written instead of a number that does not divide another.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hydrac::spec {

// Divisors of `number` > 0, in ascending order.
std::vector<int64_t> divisors(int64_t number);

// The divisors of `number` next to `wanted`, below (or `wanted` itself) and above, as text.
std::vector<std::string> divisors_near(int64_t number, int64_t wanted);

}  // namespace hydrac::spec
