// 4-bit NormalFloat (Dettmers et al.: QLoRA, 2023), with the codebook of bitsandbytes: 16 numbers between -1
// and 1 that are equally likely for normally distributed weights. A byte holds two codes.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

inline constexpr int kNf4Block = 64;   // elements that share a largest magnitude
inline constexpr int kNf4Group = 256;  // blocks whose largest magnitudes share a scale

// The number of a code below 16. Conditions on its bits make instructions that select, not branches.
HYDRAC_FN float nf4_value(std::uint32_t code) {
  const bool bit0 = (code & 1u) != 0, bit1 = (code & 2u) != 0, bit2 = (code & 4u) != 0,
             bit3 = (code & 8u) != 0;
  const float v0 = bit0 ? -0.6961928009986877f : -1.0f;
  const float v2 = bit0 ? -0.39491748809814453f : -0.5250730514526367f;
  const float v4 = bit0 ? -0.18477343022823334f : -0.28444138169288635f;
  const float v6 = bit0 ? 0.0f : -0.09105003625154495f;
  const float v8 = bit0 ? 0.16093020141124725f : 0.07958029955625534f;
  const float v10 = bit0 ? 0.33791524171829224f : 0.24611230194568634f;
  const float v12 = bit0 ? 0.5626170039176941f : 0.44070982933044434f;
  const float v14 = bit0 ? 1.0f : 0.7229568362236023f;
  const float low = bit2 ? (bit1 ? v6 : v4) : (bit1 ? v2 : v0);
  const float high = bit2 ? (bit1 ? v14 : v12) : (bit1 ? v10 : v8);
  return bit3 ? high : low;
}

// The numbers of a byte's two codes: element j of a block in the upper half of byte j, element j + 32 in the
// lower one, so that neighbours in memory are neighbours in the block.
HYDRAC_FN float nf4_upper(std::uint32_t byte) {
  return nf4_value(byte >> 4);
}
HYDRAC_FN float nf4_lower(std::uint32_t byte) {
  return nf4_value(byte & 15u);
}

}  // namespace hydrac
