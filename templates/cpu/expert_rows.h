// The rows of experts: a counting sort of the tokens' choices, in one thread, for its work is little.
#pragma once
#include <cstdint>

namespace hydrac::cpu {

struct ExpertRowsShape {
  std::int64_t choices = 0, experts = 0;
  std::int64_t rows = 0;  // room for all choices where each expert begins at a multiple of `block`
  std::int64_t block = 1;
};

// experts int32 [choices] -> source [rows], the choice that each row has, -1 for none; place [choices], the
// row of each choice; offsets [experts + 1], where each expert begins. An expert's choices keep their order.
inline void expert_rows(const std::int32_t* experts, std::int32_t* source, std::int32_t* place,
                        std::int32_t* offsets, const ExpertRowsShape& shape) {
  const auto rounded = [&](std::int32_t rows) {
    const auto block = static_cast<std::int32_t>(shape.block);
    return (rows + block - 1) / block * block;
  };
  for (std::int64_t e = 0; e <= shape.experts; ++e) offsets[e] = 0;
  for (std::int64_t i = 0; i < shape.choices; ++i) ++offsets[experts[i] + 1];
  for (std::int64_t e = 1; e <= shape.experts; ++e) offsets[e] = offsets[e - 1] + rounded(offsets[e]);
  for (std::int64_t r = 0; r < shape.rows; ++r) source[r] = -1;
  for (std::int64_t i = 0; i < shape.choices; ++i) {
    place[i] = offsets[experts[i]]++;
    source[place[i]] = static_cast<std::int32_t>(i);
  }
  // offsets[e] is behind the expert's last row now, and the next one begins at the multiple from there on.
  for (std::int64_t e = shape.experts; e > 0; --e) offsets[e] = rounded(offsets[e - 1]);
  offsets[0] = 0;
}

}  // namespace hydrac::cpu
