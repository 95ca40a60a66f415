#include "runtime/program/normal.h"

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "hydrac/random.h"

namespace hydrac::runtime {

namespace {

// ln x of a positive normal float: 2 atanh((m - 1) / (m + 1)) + e ln 2 with x = m 2^e, m within
// [1/sqrt 2, sqrt 2). The series' first term that is left out is below 2^-29.
inline float natural_log(float x) {
  constexpr std::uint32_t least = std::bit_cast<std::uint32_t>(std::numbers::sqrt2_v<float> / 2);
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(x) - least;
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007FFFFFu) + least);
  const float s = (m - 1) / (m + 1), square = s * s;
  const float series = 1 + square * (1.0f / 3 + square * (1.0f / 5 + square * (1.0f / 7 + square / 9)));
  return exponent * std::numbers::ln2_v<float> + 2 * s * series;
}

// cos and sin of 2 pi turn / 2^32. Within an eighth of a turn of a multiple of a quarter, by Taylor's series.
inline std::array<float, 2> cos_sin(std::uint32_t turn) {
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

inline std::array<float, 2> normal_pair(float deviation, std::uint32_t key, std::uint64_t counter) {
  const Philox2x32 bits =
      philox2x32(static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), key);
  const float uniform = (static_cast<float>(static_cast<std::int32_t>(bits.x >> 9)) + 0.5f) * 0x1p-23f;
  const float radius = deviation * std::sqrt(-2 * natural_log(uniform));
  const auto [cosine, sine] = cos_sin(bits.y);
  return {radius * cosine, radius * sine};
}

}  // namespace

void fill_normal(std::span<float> out, std::uint64_t counter, float deviation, std::uint32_t key) {
  const std::size_t pairs = out.size() / 2;
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto [first, second] = normal_pair(deviation, key, counter + i);
    out[2 * i] = first;
    out[2 * i + 1] = second;
  }
  if (out.size() % 2 != 0) out.back() = normal_pair(deviation, key, counter + pairs)[0];
}

}  // namespace hydrac::runtime
