// The operands of attention with matmuls of 8 bits as they are rounded, to test the kernels by.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/attention/fp8_tiles.h"
#include "cuda/types.cuh"
#include "tests/gpu/attention_reference.h"

namespace hydrac::test {

// x [B,T,heads,D] as e4m3 with one scale for `tokens` tokens of a head holds it.
inline std::vector<double> rounded_to_f8(const AttentionCase& c, const bf16* x, int heads, int tokens) {
  std::vector<double> to(static_cast<std::size_t>(c.batch) * c.tokens * heads * c.head_dim);
  for (int row = 0; row < c.batch * heads; ++row) {
    const int b = row / heads, h = row % heads;
    for (int first = 0; first < c.tokens; first += tokens) {
      const auto for_all = [&](auto visit) {
        for (int t = first; t < std::min(first + tokens, c.tokens); ++t) {
          for (int d = 0; d < c.head_dim; ++d)
            visit(((static_cast<std::size_t>(b) * c.tokens + t) * heads + h) * c.head_dim + d);
        }
      };
      float largest = kFp8Least;
      for_all([&](std::size_t i) { largest = std::max(largest, std::abs(to_float(x[i]))); });
      const float scale = largest / kFp8Largest, by = 1.0f / scale;
      for_all(
          [&](std::size_t i) { to[i] = static_cast<double>(scale) * round_to<f8e4m3>(to_float(x[i]) * by); });
    }
  }
  return to;
}

// out and lse of the rounded operands, whose probabilities are not rounded.
inline AttentionTensors fp8_attention_reference(const AttentionCase& c, const bf16* q, const bf16* k,
                                                const bf16* v) {
  AttentionTensors x;
  x.q = rounded_to_f8(c, q, c.heads, 1);
  x.k = rounded_to_f8(c, k, c.kv_heads, kFp8Columns);
  x.v = rounded_to_f8(c, v, c.kv_heads, kFp8Columns);
  x.d_out.assign(x.q.size(), 0);
  attention_reference(c, x);
  return x;
}

}  // namespace hydrac::test
