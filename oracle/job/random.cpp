#include "oracle/job/random.h"

namespace hydrac::oracle {
namespace {

// The first of the two output words.
std::uint32_t philox2x32(std::uint32_t low, std::uint32_t high, std::uint32_t key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product = std::uint64_t{0xD256D193} * low;
    low = static_cast<std::uint32_t>(product >> 32) ^ key ^ high;
    high = static_cast<std::uint32_t>(product);
    key += 0x9E3779B9;
  }
  return low;
}

}  // namespace

std::uint32_t random_key(std::uint32_t seed, std::uint32_t step, std::uint32_t site) {
  return philox2x32(step, site, seed);
}

std::uint32_t random_bits(std::uint32_t key, std::uint64_t index) {
  return philox2x32(static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), key);
}

}  // namespace hydrac::oracle
