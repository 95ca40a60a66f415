#include "oracle/job/random.h"

#include <algorithm>
#include <cmath>

namespace hydrac::oracle {
namespace {

struct Words {
  std::uint32_t first, second;
};

Words philox2x32(std::uint32_t low, std::uint32_t high, std::uint32_t key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product = std::uint64_t{0xD256D193} * low;
    low = static_cast<std::uint32_t>(product >> 32) ^ key ^ high;
    high = static_cast<std::uint32_t>(product);
    key += 0x9E3779B9;
  }
  return {low, high};
}

}  // namespace

std::uint32_t random_key(std::uint32_t seed, std::uint32_t step, std::uint32_t site) {
  return philox2x32(step, site, seed).first;
}

std::uint32_t random_bits(std::uint32_t key, std::uint64_t index) {
  return philox2x32(static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), key).first;
}

std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t index) {
  const std::uint64_t draw = index / 4;
  const Words words =
      philox2x32(static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32), key);
  const std::uint32_t word = index % 4 < 2 ? words.first : words.second;
  return index % 2 == 0 ? word % 65536 : word / 65536;
}

double round_stochastically(double x, std::uint32_t noise) {
  constexpr double kLargest = 0x1.FEp127;
  constexpr int kDigits = 8, kSmallestUlp = -133;
  const double number = static_cast<float>(x);
  if (!(std::abs(number) < kLargest) || number == 0) return number;
  const double ulp = std::ldexp(1, std::max(std::ilogb(number) + 1 - kDigits, kSmallestUlp));
  const double towards_zero = std::floor(std::abs(number) / ulp);
  const double distance = std::abs(number) / ulp - towards_zero;
  const bool goes_up = distance * 65536 + noise >= 65536;
  return std::copysign((towards_zero + (goes_up ? 1 : 0)) * ulp, number);
}

}  // namespace hydrac::oracle
