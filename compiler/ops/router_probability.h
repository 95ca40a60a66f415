// p = sigmoid(3 tanh(logit / 2)): the router's probability, in what a block's depth and its losses read of
// it. Written with tanh: of numbers that come from 16 bits within a kernel, GPUs approximate sigmoid and exp
// (docs/architecture/kernels.md), and a depth must not depend on what its kernel is fused with.
#pragma once
#include "ir/body_builder.h"

namespace hydrac::ops {

inline ir::Term router_tanh(ir::Term logit) {
  return logit.builder->named("t", tanh(logit * 0.5));
}
inline ir::Term router_probability(ir::Term logit) {
  return logit.builder->named("p", fma(tanh(1.5 * router_tanh(logit)), 0.5, 0.5));
}
inline ir::Term router_probability_derivative(ir::Term logit) {
  const ir::Term t = router_tanh(logit), p = router_probability(logit);
  return 1.5 * p * (1 - p) * (1 - t * t);
}

}  // namespace hydrac::ops
