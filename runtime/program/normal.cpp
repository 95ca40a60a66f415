#include "runtime/program/normal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

namespace hydrac::runtime {

namespace {

// ln x of a positive normal float: 2 atanh((m - 1) / (m + 1)) + e ln 2 with x = m 2^e, m within
// [1/sqrt 2, sqrt 2). The series' first term that is left out is below 2^-29.
[[gnu::always_inline]] inline float natural_log(float x) {
  constexpr std::uint32_t least = std::bit_cast<std::uint32_t>(std::numbers::sqrt2_v<float> / 2);
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(x) - least;
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007FFFFFu) + least);
  const float s = (m - 1) / (m + 1), square = s * s;
  const float series = 1 + square * (1.0f / 3 + square * (1.0f / 5 + square * (1.0f / 7 + square / 9)));
  return exponent * std::numbers::ln2_v<float> + 2 * s * series;
}

// cos and sin of 2 pi turn / 2^32. Within an eighth of a turn of a multiple of a quarter, by Taylor's series.
[[gnu::always_inline]] inline std::array<float, 2> cos_sin(std::uint32_t turn) {
  const std::uint32_t quarters = (turn + 0x20000000u) >> 30;
  const auto rest = static_cast<std::int32_t>(turn - (quarters << 30));
  const float x = static_cast<float>(rest) * (std::numbers::pi_v<float> * 0x1p-31f), square = x * x;
  const float sine =
      x * (1 + square * (-1.0f / 6 + square * (1.0f / 120 + square * (-1.0f / 5040 + square / 362880))));
  const float cosine =
      1 + square * (-1.0f / 2 + square * (1.0f / 24 + square * (-1.0f / 720 +
                                                                square * (1.0f / 40320 - square / 3628800))));
  const bool odd = quarters % 2 != 0;
  const float c = odd ? sine : cosine, s = odd ? cosine : sine;
  const std::uint32_t c_sign = ((quarters + 1) & 2) << 30, s_sign = (quarters & 2) << 30;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(c) ^ c_sign),
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(s) ^ s_sign)};
}

constexpr int kBlock = 1024;  // pairs at a time, on the stack

// The same bits for every vector width: no instruction of these loops contracts or differs between vectors
// and scalars.
#if defined(__x86_64__) && defined(__GLIBC__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
void fill_block(float* out, std::uint64_t counter, float deviation, std::uint32_t key) {
  // philox2x32 (hydrac/random.h) of kBlock counters, round by round.
  std::uint32_t x[kBlock], y[kBlock];
#pragma omp simd
  for (int i = 0; i < kBlock; ++i) {
    const std::uint64_t at = counter + static_cast<std::uint64_t>(i);
    x[i] = static_cast<std::uint32_t>(at);
    y[i] = static_cast<std::uint32_t>(at >> 32);
  }
  for (int round = 0; round < 10; ++round, key += 0x9E3779B9u) {
#pragma omp simd
    for (int i = 0; i < kBlock; ++i) {
      const std::uint64_t product = std::uint64_t{0xD256D193u} * x[i];
      x[i] = static_cast<std::uint32_t>(product >> 32) ^ key ^ y[i];
      y[i] = static_cast<std::uint32_t>(product);
    }
  }
#pragma omp simd
  for (int i = 0; i < kBlock; ++i) {
    const float uniform = (static_cast<float>(static_cast<std::int32_t>(x[i] >> 9)) + 0.5f) * 0x1p-23f;
    const float radius = deviation * std::sqrt(-2 * natural_log(uniform));
    const auto [cosine, sine] = cos_sin(y[i]);
    out[2 * i] = radius * cosine;
    out[2 * i + 1] = radius * sine;
  }
}

}  // namespace

void fill_normal(std::span<float> out, std::uint64_t counter, float deviation, std::uint32_t key) {
  constexpr std::int64_t block = 2 * kBlock;
  const auto count = static_cast<std::int64_t>(out.size());
#pragma omp parallel for schedule(static)
  for (std::int64_t first = 0; first < count; first += block) {
    const std::uint64_t at = counter + static_cast<std::uint64_t>(first / 2);
    if (first + block <= count) {
      fill_block(out.data() + first, at, deviation, key);
    } else {
      float last[block];
      fill_block(last, at, deviation, key);
      std::copy_n(last, count - first, out.data() + first);
    }
  }
}

}  // namespace hydrac::runtime
