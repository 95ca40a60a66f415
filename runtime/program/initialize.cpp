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
double llama3_frequency(const RopeScaling& s, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency,
               length = static_cast<double>(s.original_max_position_embeddings);
  if (wavelength < length / s.high_freq_factor) return frequency;
  if (wavelength > length / s.low_freq_factor) return frequency / s.factor;
  const double smooth = (length / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

// YaRN: blends over pairs, from the one that turns beta_fast times within the original length to the one that
// turns beta_slow times.
double yarn_frequency(const RopeTables& rope, int64_t pair, double frequency) {
  const RopeScaling& s = rope.scaling;
  const auto width = static_cast<double>(rope.head_dim);
  const auto pair_with_turns = [&](double turns) {
    const double length = static_cast<double>(s.original_max_position_embeddings);
    return width * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double first = pair_with_turns(s.beta_fast), last = pair_with_turns(s.beta_slow);
  if (s.truncate) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, width - 1);
  if (first == last) last += 0.001;
  const double scaled = std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
  return frequency / s.factor * scaled + frequency * (1 - scaled);
}

double scaled_frequency(const RopeTables& rope, int64_t pair, double frequency) {
  using Kind = RopeScaling::Kind;
  const RopeScaling& s = rope.scaling;
  if (s.kind == Kind::longrope) return frequency / s.pair_factors[static_cast<size_t>(pair)];
  if (s.factor == 1) return frequency;
  if (s.kind == Kind::linear) return frequency / s.factor;
  return s.kind == Kind::yarn ? yarn_frequency(rope, pair, frequency) : llama3_frequency(s, frequency);
}

// tokens * head_dim / 2 elements of each table from `first` on.
void fill_angles(const RopeTables& rope, int64_t first, std::span<float> cos, std::span<float> sin) {
  const int64_t half = rope.head_dim / 2;
  const double factor = rope.scaling.attention_factor;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.head_dim);
    const double frequency = scaled_frequency(rope, i, std::pow(rope.theta, exponent));
    for (int64_t t = 0; t < rope.tokens; ++t) {
      const double angle = static_cast<double>(t) * frequency;
      cos[first + t * half + i] = static_cast<float>(factor * std::cos(angle));
      sin[first + t * half + i] = static_cast<float>(factor * std::sin(angle));
    }
  }
}

}  // namespace

void fill_rope_tables(const RopeTables& rope, std::span<float> cos, std::span<float> sin) {
  int64_t filled = 0;
  if (rope.local_theta > 0) {
    RopeTables local = rope;
    local.theta = rope.local_theta;
    local.scaling = {};
    fill_angles(local, 0, cos, sin);
    filled = rope.tokens * rope.head_dim / 2;
  }
  fill_angles(rope, filled, cos, sin);
  if (!rope.has_still) return;
  filled += rope.tokens * rope.head_dim / 2;
  std::ranges::fill(cos.subspan(filled), 1.0f);
  std::ranges::fill(sin.subspan(filled), 0.0f);
}

}  // namespace hydrac::runtime
