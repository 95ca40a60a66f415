// Cosine distances within sets of vectors.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cosine_similarity.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>

#include "oracle/aten/op.h"

namespace hydrac::oracle {

// x[B, N, d] -> [B]: the mean of 1 - cos over all pairs of two of the N vectors.
at::Tensor pairwise_cosine_distance(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  const std::int64_t n = x.size(1);
  at::Tensor cosines;
  if (call.mode == Mode::training) {
    cosines = at::cosine_similarity(x.unsqueeze(2), x.unsqueeze(1), -1);
  } else {
    const at::Tensor unit = x * at::rsqrt(x.square().sum(-1, true) + call.attr("eps"));
    cosines = at::matmul(unit, unit.transpose(1, 2));
  }
  const at::Tensor others = 1 - at::eye(n, x.options());
  return 1 - (cosines * others).sum({1, 2}) / static_cast<double>(n * (n - 1));
}

}  // namespace hydrac::oracle
