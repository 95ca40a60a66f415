// Matrix products in float64 on the host, from operands of any element type as they lie in memory.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/cuda/gemm.h"

namespace hydrac::test {

using runtime::cuda::ElementType;
using runtime::cuda::Epilogue;
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
    case ElementType::fp8_e4m3:
      return {4, 3, 1};
    case ElementType::fp8_e5m2:
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
    if (f.bytes > 1 && exponent == (1 << f.exponent_bits) - 1) return sign * NAN;
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

struct GemmReference {
  std::vector<double> d, bias, aux;  // dense; bias and aux only where the epilogue writes them
};

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

inline double gelu_derivative(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

// All operands dense but for A's and B's rows, and not batched. `c` as it was before.
inline GemmReference reference(const GemmProblem& p, const Tensor& a, const Tensor& b, const Tensor& c,
                               const Tensor& bias, const Tensor& aux) {
  const std::int64_t lda = p.lda != 0 ? p.lda : p.transpose_a ? p.m : p.k;
  const std::int64_t ldb = p.ldb != 0 ? p.ldb : p.transpose_b ? p.k : p.n;
  const auto a_at = [&](std::int64_t i, std::int64_t l) {
    return a[p.transpose_a ? l * lda + i : i * lda + l];
  };
  const auto b_at = [&](std::int64_t l, std::int64_t j) {
    return b[p.transpose_b ? j * ldb + l : l * ldb + j];
  };
  std::vector<double> bs(p.k * p.n);
  for (std::int64_t l = 0; l < p.k; ++l)
    for (std::int64_t j = 0; j < p.n; ++j) bs[l * p.n + j] = b_at(l, j);

  GemmReference out;
  out.d.assign(p.m * p.n, 0);
  const bool bias_of_a = p.epilogue == Epilogue::bias_gradient_a;
  if (bias_of_a) out.bias.assign(p.m, 0);
  if (p.epilogue == Epilogue::bias_gradient_b || p.epilogue == Epilogue::dgelu_bias_gradient)
    out.bias.assign(p.n, 0);
  for (std::int64_t i = 0; i < p.m; ++i) {
    double* row = &out.d[i * p.n];
    for (std::int64_t l = 0; l < p.k; ++l) {
      const double value = a_at(i, l);
      if (bias_of_a) out.bias[i] += value;
      for (std::int64_t j = 0; j < p.n; ++j) row[j] += value * bs[l * p.n + j];
    }
  }
  if (p.epilogue == Epilogue::bias_gradient_b) {
    for (std::int64_t i = 0; i < p.k * p.n; ++i) out.bias[i % p.n] += bs[i];
  }
  if (p.epilogue == Epilogue::gelu_aux || p.epilogue == Epilogue::gelu_aux_bias) out.aux.resize(p.m * p.n);
  for (std::int64_t i = 0; i < p.m * p.n; ++i) {
    double x = p.alpha * out.d[i];
    if (p.beta != 0) x += p.beta * c[i];
    switch (p.epilogue) {
      case Epilogue::bias:
      case Epilogue::relu_bias:
      case Epilogue::gelu_bias:
      case Epilogue::gelu_aux_bias:
        x += bias[i % p.n];
        break;
      default:
        break;
    }
    if (!out.aux.empty()) out.aux[i] = x;
    switch (p.epilogue) {
      case Epilogue::relu:
      case Epilogue::relu_bias:
        x = x > 0 ? x : 0;
        break;
      case Epilogue::gelu:
      case Epilogue::gelu_bias:
      case Epilogue::gelu_aux:
      case Epilogue::gelu_aux_bias:
        x = gelu(x);
        break;
      case Epilogue::dgelu:
      case Epilogue::dgelu_bias_gradient:
        x *= gelu_derivative(aux[i]);
        break;
      default:
        break;
    }
    if (p.epilogue == Epilogue::dgelu_bias_gradient) out.bias[i % p.n] += x;
    out.d[i] = x;
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
