// float32 to and from the narrower floating-point formats of files, bit by bit, on any processor.
#pragma once
#include <bit>
#include <cstdint>

namespace hydrac::runtime {

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest even. NaN stays NaN (quiet).
inline uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f16_to_f32(uint16_t bits);

// Round to nearest even; beyond 65504 to infinity. NaN stays NaN (quiet).
uint16_t f32_to_f16(float value);

}  // namespace hydrac::runtime
