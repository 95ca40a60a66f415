#include "runtime/program/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hydrac/random.h"
#include "runtime/program/normal.h"

namespace hydrac::runtime {

void initialize_parameter(std::span<float> out, int64_t first, const ParameterStart& start, uint32_t seed,
                          uint32_t stream) {
  if (start.kind != ParameterStart::Kind::normal) {
    const float number =
        start.kind == ParameterStart::Kind::constant ? static_cast<float>(start.number) : 0.0f;
    std::ranges::fill(out, start.kind == ParameterStart::Kind::ones ? 1.0f : number);
    return;
  }
  // Streams of dropout have small site numbers and steps; this constant keeps weights apart from them.
  constexpr uint32_t weights = 0x57454947;
  fill_normal(out, static_cast<uint64_t>(first) / 2, static_cast<float>(start.number),
              random_key(seed, weights, stream));
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
