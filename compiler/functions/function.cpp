#include "functions/function.h"

#include <cmath>

namespace hydrac::functions {

std::string_view to_string(Op op) {
  static constexpr std::string_view names[] = {
      "constant", "argument",    "neg",         "abs",        "exp",   "expm1", "log",   "log1p",
      "tanh",     "erf",         "sqrt",        "sigmoid",    "sin",   "cos",   "floor", "pow",
      "add",      "sub",         "mul",         "div",        "max",   "min",   "less",  "less_equal",
      "equal",    "logical_not", "logical_and", "logical_or", "select"};
  return names[static_cast<int>(op)];
}

namespace {

template <class T>
T compute(const Node& node, const std::vector<T>& arguments, const std::vector<T>& values) {
  const auto arg = [&](size_t i) { return values[static_cast<size_t>(node.args[i])]; };
  switch (node.op) {
    case Op::constant:
      return static_cast<T>(node.number);
    case Op::argument:
      return arguments[static_cast<size_t>(node.parameter)];
    case Op::neg:
      return -arg(0);
    case Op::abs:
      return std::abs(arg(0));
    case Op::exp:
      return std::exp(arg(0));
    case Op::expm1:
      return std::expm1(arg(0));
    case Op::log:
      return std::log(arg(0));
    case Op::log1p:
      return std::log1p(arg(0));
    case Op::tanh:
      return std::tanh(arg(0));
    case Op::erf:
      return std::erf(arg(0));
    case Op::sqrt:
      return std::sqrt(arg(0));
    case Op::sigmoid:
      return 1 / (1 + std::exp(-arg(0)));
    case Op::sin:
      return std::sin(arg(0));
    case Op::cos:
      return std::cos(arg(0));
    case Op::floor:
      return std::floor(arg(0));
    case Op::pow:
      return std::pow(arg(0), static_cast<T>(node.number));
    case Op::add:
      return arg(0) + arg(1);
    case Op::sub:
      return arg(0) - arg(1);
    case Op::mul:
      return arg(0) * arg(1);
    case Op::div:
      return arg(0) / arg(1);
    case Op::max:
      return arg(0) < arg(1) ? arg(1) : arg(0);
    case Op::min:
      return arg(1) < arg(0) ? arg(1) : arg(0);
    case Op::less:
      return arg(0) < arg(1);
    case Op::less_equal:
      return arg(0) <= arg(1);
    case Op::equal:
      return arg(0) == arg(1);
    case Op::logical_not:
      return arg(0) == 0;
    case Op::logical_and:
      return arg(0) != 0 && arg(1) != 0;
    case Op::logical_or:
      return arg(0) != 0 || arg(1) != 0;
    case Op::select:
      return arg(0) != 0 ? arg(1) : arg(2);
  }
  return std::nan("");
}

}  // namespace

template <class T>
T evaluate(const Function& function, const std::vector<T>& arguments) {
  std::vector<T> values;
  values.reserve(function.nodes.size());
  for (const Node& node : function.nodes) values.push_back(compute(node, arguments, values));
  return values[static_cast<size_t>(function.result)];
}

template float evaluate(const Function&, const std::vector<float>&);
template double evaluate(const Function&, const std::vector<double>&);

}  // namespace hydrac::functions
