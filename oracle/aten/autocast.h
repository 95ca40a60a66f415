// PyTorch's autocast around an operation, spelled out as casts: the same on every device and with every
// LibTorch, also where one has no 16-bit kernels.
#pragma once
#include <ATen/core/Tensor.h>

#include "oracle/aten/op.h"

namespace hydrac::oracle {

// Runs `op` on `call` under autocast to `call.autocast`, which is set. The arithmetic is float32; inputs and
// result are rounded as op.casting says, and so are their gradients on the way back.
at::Tensor run_under_autocast(const OpDefinition& op, const OpCall& call);

// x, float32, rounded to `type` and still float32. Gradients pass through unrounded.
at::Tensor round_values(const at::Tensor& x, at::ScalarType type);

// x itself. Its gradient is rounded to `type` before it goes on.
at::Tensor round_gradient(const at::Tensor& x, at::ScalarType type);

}  // namespace hydrac::oracle
