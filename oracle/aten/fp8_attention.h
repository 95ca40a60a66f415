// A forward pass of attention with matmuls of 8 bits, spelled out as casts of float32 numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include "oracle/job/graph.h"

namespace hydrac::oracle {

// out [B, H, T, D] and lse [B, H, T, 1], the log of the softmax's denominator.
struct Fp8Attended {
  at::Tensor out, lse;
};

// Takes q, k, v [B, H, T, D] without gradients, whose scores are scale q k^T; `hidden` [.., T, T] is true
// where a query may not see a key. All are e4m3: queries with a scale a row, keys and values with one for
// each 128 tokens of a head, probabilities as multiples of 2^-5.8 of the largest so far. That one follows
// where it is passed by 2^3, tile by tile, and counts a probability times its values' scale.
Fp8Attended fp8_attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                         const at::Tensor& hidden);

}  // namespace hydrac::oracle
