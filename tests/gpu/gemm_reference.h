// Matmuls in float64 on the host, from operands of any element type as they lie in memory.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/cuda/gemm/gemm.h"

namespace hydrac::test {

using runtime::cuda::ElementType;
using runtime::cuda::GemmProblem;

struct FloatFormat {
  int exponent_bits, mantissa_bits, bytes;
};

inline FloatFormat format_of(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return {8, 23, 4};
    case ElementType::bf16:
      return {8, 7, 2};
    case ElementType::f16:
      return {5, 10, 2};
    case ElementType::f8e4m3:
      return {4, 3, 1};
    case ElementType::f8e5m2:
      return {5, 2, 1};
  }
  return {};
}

// A matrix in its element type, bit for bit.
struct Tensor {
  ElementType type;
  std::vector<std::uint8_t> bytes;

  Tensor(ElementType type, std::int64_t count) : type(type), bytes(count * format_of(type).bytes, 0xff) {}

  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()) / format_of(type).bytes; }

  double operator[](std::int64_t i) const {
    const FloatFormat f = format_of(type);
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * f.bytes, f.bytes);
    const int all = f.exponent_bits + f.mantissa_bits;
    const double sign = (bits >> all) & 1 ? -1 : 1;
    const int exponent = static_cast<int>((bits >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1));
    const double mantissa = std::ldexp(bits & ((1u << f.mantissa_bits) - 1), -f.mantissa_bits);
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    if (exponent == (1 << f.exponent_bits) - 1) return sign * NAN;
    return sign *
           (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias));
  }

  // Random signs and mantissas, magnitudes from 1/8 to 2.
  void fill_random(std::uint32_t seed) {
    const FloatFormat f = format_of(type);
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    std::uint64_t state = seed;
    for (std::int64_t i = 0; i < size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto random = static_cast<std::uint32_t>(state >> 32);
      const std::uint32_t exponent = static_cast<std::uint32_t>(bias) - random % 4;
      const std::uint32_t sign_mantissa = random >> 4;
      const std::uint32_t bits = (sign_mantissa & ((1u << f.mantissa_bits) - 1)) |
                                 exponent << f.mantissa_bits |
                                 (random >> 31) << (f.exponent_bits + f.mantissa_bits);
      std::memcpy(bytes.data() + i * f.bytes, &bits, f.bytes);
    }
  }
};

// D; `d` as it was before, all operands dense.
inline std::vector<double> reference(const GemmProblem& p, const Tensor& a, const Tensor& b, const Tensor& d,
                                     const Tensor& bias) {
  const auto a_at = [&](std::int64_t i, std::int64_t l) {
    return a[p.transpose_a ? l * p.m + i : i * p.k + l];
  };
  const auto b_at = [&](std::int64_t l, std::int64_t j) {
    return b[p.transpose_b ? j * p.k + l : l * p.n + j];
  };
  std::vector<double> bs(p.k * p.n);
  for (std::int64_t l = 0; l < p.k; ++l)
    for (std::int64_t j = 0; j < p.n; ++j) bs[l * p.n + j] = b_at(l, j);

  std::vector<double> out(p.m * p.n, 0);
  for (std::int64_t i = 0; i < p.m; ++i) {
    double* row = &out[i * p.n];
    for (std::int64_t l = 0; l < p.k; ++l) {
      const double value = a_at(i, l);
      for (std::int64_t j = 0; j < p.n; ++j) row[j] += value * bs[l * p.n + j];
    }
  }
  for (std::int64_t i = 0; i < p.m * p.n; ++i) {
    if (p.accumulate) out[i] += d[i];
    if (p.bias) out[i] += bias[i % p.n];
  }
  return out;
}

// |got - wanted| / |wanted|; NaN never passes a comparison.
inline double relative_error(const Tensor& got, const std::vector<double>& wanted) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double d = got[static_cast<std::int64_t>(i)] - wanted[i];
    difference += d * d;
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace hydrac::test
