// Matrices as 4-bit codes against the format as QLoRA's paper and bitsandbytes state it, in float64.
#include "runtime/program/nf4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace hydrac::runtime {
namespace {

const std::vector<double> kNormalFloat = {-1.0,
                                          -0.6961928009986877,
                                          -0.5250730514526367,
                                          -0.39491748809814453,
                                          -0.28444138169288635,
                                          -0.18477343022823334,
                                          -0.09105003625154495,
                                          0.0,
                                          0.07958029955625534,
                                          0.16093020141124725,
                                          0.24611230194568634,
                                          0.33791524171829224,
                                          0.44070982933044434,
                                          0.5626170039176941,
                                          0.7229568362236023,
                                          1.0};

// bitsandbytes' create_dynamic_map(signed=True), ascending.
std::vector<double> dynamic_map() {
  std::vector<double> values = {0, 1};
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 1 << i; ++j) {
      values.push_back(std::pow(10.0, i - 6) * (0.1 + 0.9 * (j + 0.5) / (1 << i)));
      values.push_back(-values.back());
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

size_t nearest(const std::vector<double>& values, double x) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (std::abs(values[i] - x) < std::abs(values[best] - x)) best = i;
  }
  return best;
}

std::vector<float> weights(size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

struct Expected {
  std::vector<uint8_t> codes, block_codes;
  std::vector<double> groups;
};

Expected expected(std::span<const float> numbers) {
  static const std::vector<double> map = dynamic_map();
  Expected e;
  std::vector<double> largest;
  double mean = 0;
  for (size_t first = 0; first < numbers.size(); first += 64) {
    double most = 0;
    for (size_t i = 0; i < 64; ++i) most = std::max(most, std::abs(static_cast<double>(numbers[first + i])));
    for (size_t i = 0; i < 32; ++i)
      e.codes.push_back(static_cast<uint8_t>(nearest(kNormalFloat, numbers[first + i] / most) * 16 +
                                             nearest(kNormalFloat, numbers[first + 32 + i] / most)));
    largest.push_back(most);
    mean += most;
  }
  mean /= static_cast<double>(largest.size());
  for (size_t first = 0; first < largest.size(); first += 256) {
    const size_t end = std::min(first + 256, largest.size());
    double scale = 0;
    for (size_t b = first; b < end; ++b) scale = std::max(scale, std::abs(largest[b] - mean));
    for (size_t b = first; b < end; ++b)
      e.block_codes.push_back(static_cast<uint8_t>(nearest(map, (largest[b] - mean) / scale)));
    e.groups.insert(e.groups.end(), {scale, mean});
  }
  return e;
}

Nf4 quantize_nf4(std::span<const float> numbers) {
  Nf4Encoder encoder;
  encoder.begin(std::ssize(numbers));
  encoder.add(numbers);
  return encoder.finish();
}

TEST(Nf4, HasTheCodesOfTheFormat) {
  for (const size_t blocks : {size_t{1}, size_t{255}, size_t{256}, size_t{600}}) {
    const std::vector<float> numbers = weights(blocks * 64, static_cast<unsigned>(blocks));
    const Nf4 matrix = quantize_nf4(numbers);
    const Expected e = expected(numbers);
    EXPECT_EQ(matrix.codes, e.codes);
    ASSERT_EQ(matrix.groups.size(), e.groups.size());
    for (size_t i = 0; i < e.groups.size(); ++i)
      EXPECT_NEAR(matrix.groups[i], e.groups[i], 1e-6 * std::abs(e.groups[i]));
    if (blocks == 1) continue;  // which is its own mean
    EXPECT_EQ(matrix.block_codes, e.block_codes);
  }
}

TEST(Nf4, IsReadAsItsCodesSay) {
  const std::vector<double> map = dynamic_map();
  const Nf4 matrix = quantize_nf4(weights(300 * 64));
  std::vector<float> numbers(300 * 64);
  dequantize_nf4(matrix, numbers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t block = i / 64, place = i % 64, group = block / 256;
    const unsigned byte = matrix.codes[block * 32 + place % 32];
    const double largest = map[matrix.block_codes[block]] * static_cast<double>(matrix.groups[2 * group]) +
                           static_cast<double>(matrix.groups[2 * group + 1]);
    const double number = kNormalFloat[place < 32 ? byte / 16 : byte % 16] * largest;
    ASSERT_NEAR(numbers[i], number, 1e-6 * std::abs(number)) << i;
  }
}

TEST(Nf4, TakesLittleMoreThanFourBits) {
  const int64_t elements = 4096 * 14336;
  Nf4 matrix;
  resize(matrix, elements);
  const size_t bytes = matrix.codes.size() + matrix.block_codes.size() + matrix.groups.size() * sizeof(float);
  EXPECT_EQ(bytes, elements / 2 + elements / 64 + elements / (64 * 256) * 8);
}

TEST(Nf4, IsTheSameInPiecesAndBehindALargerMatrix) {
  const std::vector<float> numbers = weights(600 * 64);
  const Nf4 whole = quantize_nf4(numbers);
  Nf4Encoder encoder;
  encoder.begin(700 * 64);
  encoder.add(weights(700 * 64, 2));
  encoder.finish();
  encoder.begin(std::ssize(numbers));
  for (size_t first = 0; first < numbers.size(); first += 250 * 64)
    encoder.add(std::span(numbers).subspan(first, std::min<size_t>(250 * 64, numbers.size() - first)));
  const Nf4& pieces = encoder.finish();
  EXPECT_EQ(pieces.codes, whole.codes);
  EXPECT_EQ(pieces.block_codes, whole.block_codes);
  EXPECT_EQ(pieces.groups, whole.groups);
}

TEST(Nf4, RefusesHalfABlockAndHalfAMatrix) {
  Nf4Encoder encoder;
  EXPECT_THROW(encoder.begin(96), std::logic_error);
  encoder.begin(128);
  EXPECT_THROW(encoder.add(std::vector<float>(96)), std::logic_error);
  encoder.add(std::vector<float>(64));
  EXPECT_THROW(encoder.finish(), std::logic_error);
  EXPECT_THROW(encoder.add(std::vector<float>(128)), std::logic_error);
}

TEST(Nf4, KeepsZeros) {
  std::vector<float> numbers(2 * 64);
  numbers[70] = -3;
  std::vector<float> read(numbers.size(), 1);
  dequantize_nf4(quantize_nf4(numbers), read);
  EXPECT_EQ(read, numbers);
  dequantize_nf4(quantize_nf4(std::vector<float>(128)), read);
  EXPECT_EQ(read, std::vector<float>(128));
}

TEST(Nf4, SaysWhereNumbersAreNone) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> numbers = weights(600 * 64);
    numbers[12345] = bad;
    const Nf4 matrix = quantize_nf4(numbers);
    EXPECT_TRUE(std::isnan(matrix.groups[0]) && std::isnan(matrix.groups[1]));
  }
}

TEST(Nf4, LiesBehindTheMatrixBefore) {
  const Nf4Place next = behind({.codes = 1000, .block_codes = 2000, .groups = 3000, .elements = 300 * 64});
  EXPECT_EQ(next.codes, 1000u + 300 * 32);
  EXPECT_EQ(next.block_codes, 2000u + 300);
  EXPECT_EQ(next.groups, 3000u + 2 * 2 * sizeof(float));
}

}  // namespace
}  // namespace hydrac::runtime
