#include "oracle/aten/autocast.h"

#include <ATen/TensorOperators.h>
#include <c10/core/ScalarType.h>

namespace hydrac::oracle {
namespace {

bool is_floating(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point();
}

// Type of the result; 16-bit inputs keep a result at 16 bits only when all are.
at::ScalarType result_type(const OpDefinition& op, const OpCall& call) {
  if (op.casting == Casting::narrow) return *call.autocast;
  if (op.casting == Casting::float32) return at::kFloat;
  for (const at::Tensor& input : call.inputs)
    if (is_floating(input) && input.scalar_type() != *call.autocast) return at::kFloat;
  return *call.autocast;
}

}  // namespace

at::Tensor run_under_autocast(const OpDefinition& op, const OpCall& call) {
  std::vector<at::Tensor> inputs = call.inputs;
  for (at::Tensor& input : inputs) {
    if (!is_floating(input)) continue;
    if (op.casting == Casting::narrow) input = input.to(*call.autocast);
    input = input.to(at::kFloat);
  }
  const OpCall in_float32{call.node, call.graph,  call.mode,     call.seed, call.layer,
                          inputs,    call.tables, call.autocast, call.fp8,  call.choices};
  const at::Tensor result = op.function(in_float32);
  return result.is_floating_point() ? result.to(result_type(op, call)) : result;
}

// r - x is exact (r and x are neighbours), and so is x + (r - x) = r.
at::Tensor round_values(const at::Tensor& x, at::ScalarType type) {
  const at::Tensor values = x.detach();
  return x + (values.to(type).to(x.scalar_type()) - values);
}

at::Tensor round_gradient(const at::Tensor& x, at::ScalarType type) {
  if (x.requires_grad())
    x.register_hook(
        [type](const at::Tensor& gradient) { return gradient.to(type).to(gradient.scalar_type()); });
  return x;
}

}  // namespace hydrac::oracle
