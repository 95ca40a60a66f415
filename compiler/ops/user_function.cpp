#include "ops/user_function.h"

#include <stdexcept>

#include "functions/derivative.h"

namespace hydrac::ops {

namespace {

using functions::Node;
using functions::Op;
using ir::Term;

Term compute(ir::BodyBuilder& k, const Node& node, ir::ExprType type, const std::vector<Term>& arguments,
             const std::vector<Term>& values) {
  const auto arg = [&](size_t i) { return values[static_cast<size_t>(node.args[i])]; };
  switch (node.op) {
    case Op::constant:
      return k.constant(node.number, type);
    case Op::argument:
      return arguments[static_cast<size_t>(node.parameter)];
    case Op::neg:
      return -arg(0);
    case Op::abs:
      return abs(arg(0));
    case Op::exp:
      return exp(arg(0));
    case Op::expm1:
      return expm1(arg(0));
    case Op::log:
      return log(arg(0));
    case Op::log1p:
      return log1p(arg(0));
    case Op::tanh:
      return tanh(arg(0));
    case Op::erf:
      return erf(arg(0));
    case Op::sqrt:
      return sqrt(arg(0));
    case Op::sigmoid:
      // The kernels' own is for floats.
      return type == ir::ExprType::f32 ? sigmoid(arg(0)) : 1 / (exp(-arg(0)) + 1);
    case Op::sin:
      return sin(arg(0));
    case Op::cos:
      return cos(arg(0));
    case Op::floor:
      return floor(arg(0));
    case Op::pow:
      return exp(node.number * log(arg(0)));
    case Op::add:
      return arg(0) + arg(1);
    case Op::sub:
      return arg(0) - arg(1);
    case Op::mul:
      return arg(0) * arg(1);
    case Op::div:
      return arg(0) / arg(1);
    case Op::max:
      return max(arg(0), arg(1));
    case Op::min:
      return min(arg(0), arg(1));
    case Op::less:
      return arg(0) < arg(1);
    case Op::less_equal:
      return arg(0) <= arg(1);
    case Op::equal:
      return arg(0) == arg(1);
    case Op::logical_not:
      return !arg(0);
    case Op::logical_and:
      return arg(0) && arg(1);
    case Op::logical_or:
      return arg(0) || arg(1);
    case Op::select:
      return select(arg(0), arg(1), arg(2));
  }
  throw std::logic_error("a node of no kind");
}

}  // namespace

Term call(ir::BodyBuilder& k, const functions::Function& function, const std::vector<Term>& arguments) {
  const ir::ExprType type = function.number == functions::Number::f32 ? ir::ExprType::f32 : ir::ExprType::f64;
  std::vector<Term> values;
  for (const Node& node : function.nodes) values.push_back(compute(k, node, type, arguments, values));
  return values[static_cast<size_t>(function.result)];
}

Term call_derivative(ir::BodyBuilder& k, const functions::Function& function, int parameter,
                     const std::vector<Term>& arguments) {
  return call(k, functions::derivative(function, parameter), arguments);
}

const functions::Function* function_of(const ir::Node& node) {
  const auto found = node.attributes.find("function");
  if (found == node.attributes.end()) return nullptr;
  return std::get<std::shared_ptr<const functions::Function>>(found->second).get();
}

std::string kernel_name(const functions::Function& function) {
  return "user_" + function.name;
}

ir::Attributes function_attributes(const functions::Function& function) {
  return {{"function", std::make_shared<const functions::Function>(function)}};
}

}  // namespace hydrac::ops
