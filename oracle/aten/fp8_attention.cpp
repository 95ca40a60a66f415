#include "oracle/aten/fp8_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/aten/fp8.h"

namespace hydrac::oracle {
namespace {

constexpr std::int64_t kTokens = 128;  // that have a scale in common
constexpr double kTop = 5.8, kSlack = 3;

// x over the largest number of its last `dimensions` dimensions, which becomes e4m3's largest.
struct Scaled {
  at::Tensor values, scale;
};
Scaled scaled(const at::Tensor& x, at::IntArrayRef dimensions) {
  const at::Tensor scale = x.abs().amax(dimensions, /*keepdim=*/true).clamp_min(0x1p-60) / kE4m3.largest;
  return {rounded_to(x / scale, kE4m3), scale};
}

}  // namespace

Fp8Attended fp8_attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                         const at::Tensor& hidden) {
  const double log2_e = 1 / std::log(2.0);
  const Scaled queries = scaled(q, {-1});
  at::Tensor out = at::zeros_like(q), sum = at::zeros_like(queries.scale),
             shift = at::full_like(sum, -std::numeric_limits<double>::infinity());
  for (std::int64_t first = 0; first < k.size(2); first += kTokens) {
    const std::int64_t end = std::min(first + kTokens, k.size(2));
    const Scaled keys = scaled(k.slice(2, first, end), {-2, -1}),
                 values = scaled(v.slice(2, first, end), {-2, -1});
    const at::Tensor dots = at::matmul(queries.values, keys.values.transpose(2, 3));
    const at::Tensor scores =
        (dots * (queries.scale * keys.scale * (scale * log2_e)) + at::log2(values.scale))
            .masked_fill(hidden.slice(-1, first, end), -std::numeric_limits<double>::infinity());
    const at::Tensor top = scores.amax(-1, /*keepdim=*/true), moves = top > shift + kSlack;
    const at::Tensor rescale = at::where(moves, at::exp2(shift - top), at::ones_like(top));
    shift = at::where(moves, top, shift);
    const at::Tensor base = at::where(at::isinf(shift), at::zeros_like(shift), shift);
    const at::Tensor weights = at::exp2(scores - base + kTop);
    sum = sum * rescale + weights.sum(-1, /*keepdim=*/true) / values.scale;
    out = out * rescale + at::matmul(rounded_to(weights, kE4m3), values.values);
  }
  return {out / sum, (shift - kTop) / log2_e + at::log(sum)};
}

}  // namespace hydrac::oracle
