#include "runtime/program/nf4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "hydrac/dynamic_code.h"
#include "hydrac/nf4.h"

namespace hydrac::runtime {

namespace {

constexpr int64_t kHalf = kNf4Block / 2;

// Borders between neighbours of the codebook, as in bitsandbytes; a number on a border gets the smaller code.
constexpr std::array<float, 15> kBorders = {
    -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f};

uint32_t code_of(float share) {
  uint32_t code = 0;
  for (const float border : kBorders) code += share > border ? 1 : 0;
  return code;
}

// 0 where the inverse would be no number.
float inverse_of(float magnitude) {
  return magnitude >= std::numeric_limits<float>::min() ? 1 / magnitude : 0;
}

// NaN where a number is not finite.
float largest_magnitude(std::span<const float> numbers) {
  float largest = 0;
  bool finite = true;
  for (const float x : numbers) {
    finite &= std::isfinite(x);
    largest = std::max(largest, std::abs(x));
  }
  return finite ? largest : std::numeric_limits<float>::quiet_NaN();
}

void encode_block(const float* block, float largest, uint8_t* codes) {
  const float inverse = inverse_of(largest);
#pragma omp simd
  for (int64_t j = 0; j < kHalf; ++j) {
    const uint32_t upper = code_of(block[j] * inverse), lower = code_of(block[j + kHalf] * inverse);
    codes[j] = static_cast<uint8_t>(upper << 4 | lower);
  }
}

// The middles between neighbours of bitsandbytes' signed map: seven decades from 1e-7 to 1 on both sides of
// 0, each with evenly spaced values, twice as many as in the decade below; and 1.
std::array<double, 255> middles_of_map() {
  std::vector<double> values = {0, 1};
  double decade = 1e-6;
  for (int count = 1; count <= 64; count *= 2, decade *= 10) {
    for (int i = 0; i < count; ++i) {
      values.push_back(decade * (0.1 + 0.9 * (i + 0.5) / count));
      values.push_back(-values.back());
    }
  }
  std::ranges::sort(values);
  std::array<double, 255> middles{};
  for (size_t i = 0; i < middles.size(); ++i) middles[i] = (values[i] + values[i + 1]) / 2;
  return middles;
}

// signed_dynamic_code(), but exact in the middle between two values.
uint8_t block_code(double share) {
  static const std::array<double, 255> middles = middles_of_map();
  return static_cast<uint8_t>(std::ranges::lower_bound(middles, share) - middles.begin());
}

// Their mean subtracted, in groups.
void encode_magnitudes(std::span<const float> magnitudes, Nf4& matrix) {
  double sum = 0;
  for (const float magnitude : magnitudes) sum += magnitude;
  const auto mean = static_cast<float>(sum / static_cast<double>(magnitudes.size()));
  std::vector<float> shifted(kNf4Group);
  for (size_t first = 0; first < magnitudes.size(); first += kNf4Group) {
    const size_t count = std::min<size_t>(kNf4Group, magnitudes.size() - first);
    for (size_t i = 0; i < count; ++i) shifted[i] = magnitudes[first + i] - mean;
    const float scale = largest_magnitude(std::span(shifted).first(count));
    for (size_t i = 0; i < count; ++i)
      matrix.block_codes[first + i] = block_code(scale > 0 ? shifted[i] / static_cast<double>(scale) : 0);
    matrix.groups[first / kNf4Group * 2] = scale;
    matrix.groups[first / kNf4Group * 2 + 1] = mean;
  }
}

}  // namespace

int64_t nf4_groups(int64_t elements) {
  constexpr int64_t group = int64_t{kNf4Block} * kNf4Group;
  return (elements + group - 1) / group;
}

Nf4Place behind(const Nf4Place& place) {
  const auto bytes = [](int64_t count) { return static_cast<uint64_t>(count); };
  return {place.codes + bytes(place.elements / 2), place.block_codes + bytes(place.elements / kNf4Block),
          place.groups + bytes(nf4_groups(place.elements) * 2) * sizeof(float)};
}

void resize(Nf4& matrix, int64_t elements) {
  if (elements == 0 || elements % kNf4Block != 0) throw std::logic_error("nf4 is for whole blocks");
  matrix.codes.resize(static_cast<size_t>(elements / 2));
  matrix.block_codes.resize(static_cast<size_t>(elements / kNf4Block));
  matrix.groups.resize(static_cast<size_t>(nf4_groups(elements) * 2));
}

void Nf4Encoder::begin(int64_t elements) {
  resize(matrix_, elements);
  magnitudes_.resize(matrix_.block_codes.size());
  added_ = 0;
}

void Nf4Encoder::add(std::span<const float> numbers) {
  const auto blocks = static_cast<int64_t>(numbers.size()) / kNf4Block;
  if (blocks * kNf4Block != std::ssize(numbers) || added_ + static_cast<size_t>(blocks) > magnitudes_.size())
    throw std::logic_error("nf4 is for whole blocks");
  float* magnitudes = magnitudes_.data() + added_;
  uint8_t* codes = matrix_.codes.data() + added_ * kHalf;
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    const std::span block = numbers.subspan(static_cast<size_t>(b * kNf4Block), kNf4Block);
    magnitudes[b] = largest_magnitude(block);
    encode_block(block.data(), magnitudes[b], codes + b * kHalf);
  }
  added_ += static_cast<size_t>(blocks);
}

const Nf4& Nf4Encoder::finish() {
  if (added_ != magnitudes_.size()) throw std::logic_error("a matrix was not added whole");
  encode_magnitudes(magnitudes_, matrix_);
  return matrix_;
}

void dequantize_nf4(const Nf4& matrix, std::span<float> numbers) {
  const auto blocks = static_cast<int64_t>(matrix.block_codes.size());
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    const float* group = &matrix.groups[static_cast<size_t>(b / kNf4Group * 2)];
    const float share = signed_dynamic_value(matrix.block_codes[static_cast<size_t>(b)]);
    const float largest = fma(share, group[0], group[1]);
    const uint8_t* codes = &matrix.codes[static_cast<size_t>(b * kHalf)];
    float* block = &numbers[static_cast<size_t>(b * kNf4Block)];
    for (int64_t j = 0; j < kHalf; ++j) {
      block[j] = nf4_upper(codes[j]) * largest;
      block[j + kHalf] = nf4_lower(codes[j]) * largest;
    }
  }
}

}  // namespace hydrac::runtime
