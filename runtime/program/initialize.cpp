#include "runtime/program/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "hydrac/random.h"
#include "runtime/program/normal.h"

namespace hydrac::runtime {

namespace {

// Within (-bound, bound), in steps of 2^-23 of it; two neighbours share a run of the generator.
void fill_uniform(std::span<float> out, uint64_t counter, float bound, uint32_t key) {
  const auto number = [bound](uint32_t bits) {
    return bound * ((static_cast<float>(bits >> 9) + 0.5f) * 0x1p-22f - 1);
  };
  for (size_t i = 0; i < out.size(); i += 2, ++counter) {
    const Philox2x32 bits =
        philox2x32(static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), key);
    out[i] = number(bits.x);
    if (i + 1 < out.size()) out[i + 1] = number(bits.y);
  }
}

}  // namespace

void initialize_parameter(std::span<float> out, int64_t first, const ParameterStart& start, uint32_t seed,
                          uint32_t stream) {
  using Kind = ParameterStart::Kind;
  const auto number = static_cast<float>(start.number);
  if (start.kind != Kind::normal && start.kind != Kind::uniform) {
    const float ones_or_zeros = start.kind == Kind::ones ? 1.0f : 0.0f;
    std::ranges::fill(out, start.kind == Kind::constant ? number : ones_or_zeros);
    return;
  }
  // Streams of dropout have small site numbers and steps; this constant keeps weights apart from them.
  constexpr uint32_t weights = 0x57454947;
  const uint32_t key = random_key(seed, weights, stream);
  if (first % 2 != 0) {  // two neighbours share a run of the generator
    std::vector<float> from_even(out.size() + 1);
    initialize_parameter(from_even, first - 1, start, seed, stream);
    std::copy(from_even.begin() + 1, from_even.end(), out.begin());
    return;
  }
  (start.kind == Kind::normal ? fill_normal : fill_uniform)(out, static_cast<uint64_t>(first) / 2, number,
                                                            key);
}

namespace {

// Llama 3: long wavelengths are divided by factor, short ones kept, those between blended.
double scaled_frequency(const RopeScaling& s, double frequency) {
  if (s.factor == 1) return frequency;
  const double wavelength = 2 * std::numbers::pi / frequency,
               length = static_cast<double>(s.original_max_position_embeddings);
  if (wavelength < length / s.high_freq_factor) return frequency;
  if (wavelength > length / s.low_freq_factor) return frequency / s.factor;
  const double smooth = (length / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

}  // namespace

void fill_rope_tables(const RopeTables& rope, std::span<float> cos, std::span<float> sin) {
  const int64_t half = rope.head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.head_dim);
    const double frequency = scaled_frequency(rope.scaling, std::pow(rope.theta, exponent));
    for (int64_t t = 0; t < rope.tokens; ++t) {
      const double angle = static_cast<double>(t) * frequency;
      cos[t * half + i] = static_cast<float>(std::cos(angle));
      sin[t * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace hydrac::runtime
