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

std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t index) {
  const std::uint64_t counter = index / 4;
  const Words words =
      philox2x32(static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), key);
  const std::uint32_t word = index % 4 < 2 ? words.first : words.second;
  return index % 2 == 0 ? word & 0xFFFF : word >> 16;
}

std::uint64_t score_index(std::int64_t head, std::int64_t tokens, std::int64_t query, std::int64_t key) {
  const std::int64_t blocks = (tokens + 15) / 16;
  const std::int64_t row = query / 16 * 8 + query % 8, column = key / 16 * 8 + key % 8;
  const auto within_head = static_cast<std::uint32_t>(row * blocks * 8 + column);
  const std::uint64_t quarter = query % 16 / 8 * 2 + key % 16 / 8;
  return (static_cast<std::uint64_t>(head) << 34) + std::uint64_t{within_head} * 4 + quarter;
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
