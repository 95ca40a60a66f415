// Users' functions, operation by operation in ATen, so that autograd differentiates them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

at::Tensor compute(const ExpressionNode& node, const std::vector<at::Tensor>& arguments,
                   const std::vector<at::Tensor>& values) {
  const std::string& op = node.op;
  const auto arg = [&](std::size_t i) { return values[static_cast<std::size_t>(node.args[i])]; };
  if (op == "constant") return at::full_like(arguments[0], node.number);
  if (op == "argument") return arguments[static_cast<std::size_t>(node.number)];
  if (op == "neg") return -arg(0);
  if (op == "abs") return at::abs(arg(0));
  if (op == "exp") return at::exp(arg(0));
  if (op == "expm1") return at::expm1(arg(0));
  if (op == "log") return at::log(arg(0));
  if (op == "log1p") return at::log1p(arg(0));
  if (op == "tanh") return at::tanh(arg(0));
  if (op == "erf") return at::erf(arg(0));
  if (op == "sqrt") return at::sqrt(arg(0));
  if (op == "sigmoid") return at::sigmoid(arg(0));
  if (op == "sin") return at::sin(arg(0));
  if (op == "cos") return at::cos(arg(0));
  if (op == "floor") return at::floor(arg(0));
  if (op == "pow") return at::pow(arg(0), node.number);
  if (op == "add") return arg(0) + arg(1);
  if (op == "sub") return arg(0) - arg(1);
  if (op == "mul") return arg(0) * arg(1);
  if (op == "div") return arg(0) / arg(1);
  if (op == "max") return at::fmax(arg(0), arg(1));
  if (op == "min") return at::fmin(arg(0), arg(1));
  if (op == "less") return arg(0) < arg(1);
  if (op == "less_equal") return arg(0) <= arg(1);
  if (op == "equal") return arg(0) == arg(1);
  if (op == "logical_not") return at::logical_not(arg(0));
  if (op == "logical_and") return at::logical_and(arg(0), arg(1));
  if (op == "logical_or") return at::logical_or(arg(0), arg(1));
  return at::where(arg(0), arg(1), arg(2));
}

at::Tensor evaluate(const OpCall& call, const std::vector<at::Tensor>& arguments) {
  if (!call.node.function) throw JobError("the node has no function");
  const Expression& expression = *call.node.function;
  if (expression.parameters != static_cast<int>(arguments.size()))
    throw JobError("the function has another number of parameters");
  std::vector<at::Tensor> values;
  for (const ExpressionNode& node : expression.nodes) values.push_back(compute(node, arguments, values));
  return values[static_cast<std::size_t>(expression.result)];
}

}  // namespace

at::Tensor function_activation(const OpCall& call) {
  return evaluate(call, {call.input(0)});
}

at::Tensor function_gated(const OpCall& call) {
  return evaluate(call, at::chunk(call.input(0), 2, -1));
}

at::Tensor function_loss(const OpCall& call) {
  const at::Tensor &prediction = call.input(0), &targets = call.input(1);
  if (prediction.sizes() != targets.sizes()) throw JobError("the inputs have different shapes");
  const at::Tensor missing = at::isnan(targets);
  // NaN would come back through where()'s gradient, times 0.
  return evaluate(call, {prediction, targets.masked_fill(missing, 0)}).masked_fill(missing, 0).mean(-1);
}

}  // namespace hydrac::oracle
