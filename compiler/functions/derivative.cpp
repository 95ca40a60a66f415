#include "functions/derivative.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "functions/expressions.h"

namespace hydrac::functions {

namespace {

class Differentiation {
 public:
  Differentiation(const Function& function, int parameter)
      : function_(function), parameter_(parameter), e_(function) {}

  Function run() {
    std::vector<bool> needed(function_.nodes.size(), false);
    needed[static_cast<size_t>(function_.result)] = true;
    for (size_t i = needed.size(); i-- > 0;) {
      const Node& node = function_.nodes[i];
      if (!needed[i]) continue;
      // A condition has no derivative.
      for (size_t a = node.op == Op::select ? 1 : 0; a < node.args.size(); ++a)
        needed[static_cast<size_t>(node.args[a])] = true;
    }
    derivatives_.assign(needed.size(), -1);
    for (size_t i = 0; i < needed.size(); ++i) {
      if (needed[i]) derivatives_[i] = of(function_.nodes[i], static_cast<int>(i));
    }
    return e_.take(derivatives_[static_cast<size_t>(function_.result)], "d_" + function_.name,
                   function_.parameters);
  }

 private:
  int number(double value) { return e_.constant(value); }

  // Products and sums where 0 is the derivative of a constant: 0 wins, even if the other factor is infinite
  // or NaN.
  int mul(int a, int b) {
    if (e_.is_constant(a, 0) || e_.is_constant(b, 0)) return number(0);
    return e_.apply(Op::mul, a, b);
  }
  int div(int a, int b) { return e_.is_constant(a, 0) ? a : e_.apply(Op::div, a, b); }
  int add(int a, int b) { return e_.apply(Op::add, a, b); }
  int sub(int a, int b) { return e_.apply(Op::sub, a, b); }

  int of(const Node& node, int id) {
    const auto arg = [&](size_t i) { return node.args[i]; };
    const auto d = [&](size_t i) { return derivatives_[static_cast<size_t>(node.args[i])]; };
    switch (node.op) {
      case Op::constant:
        return number(0);
      case Op::argument:
        return number(node.parameter == parameter_ ? 1 : 0);
      case Op::add:
        return add(d(0), d(1));
      case Op::sub:
        return sub(d(0), d(1));
      case Op::mul:
        return add(mul(d(0), arg(1)), mul(arg(0), d(1)));
      // Divided, not multiplied with 1 / v: where v is 1 + exp(u), exp(u) / v is a sigmoid.
      case Op::log:
        return div(d(0), arg(0));
      case Op::log1p:
        return div(d(0), add(number(1), arg(0)));
      case Op::div:  // with q = u / v: (u' - q v') / v
        return div(sub(d(0), mul(id, d(1))), arg(1));
      case Op::max:
        return e_.select(e_.apply(Op::less, arg(0), arg(1)), d(1), d(0));
      case Op::min:
        return e_.select(e_.apply(Op::less, arg(1), arg(0)), d(1), d(0));
      case Op::select:
        return e_.select(arg(0), d(1), d(2));
      default:
        return mul(slope(node, id), d(0));
    }
  }

  // The derivative of a function of one argument, at that argument.
  int slope(const Node& node, int id) {
    const int a = node.args[0];
    switch (node.op) {
      case Op::neg:
        return number(-1);
      case Op::abs:
        return e_.select(e_.apply(Op::less, number(0), a), number(1),
                         e_.select(e_.apply(Op::less, a, number(0)), number(-1), number(0)));
      case Op::exp:
        return id;
      case Op::expm1:
        return e_.apply(Op::exp, a);
      case Op::tanh:
        return sub(number(1), mul(id, id));
      case Op::erf:
        return mul(number(2 * std::numbers::inv_sqrtpi), e_.apply(Op::exp, e_.apply(Op::neg, mul(a, a))));
      case Op::sqrt:
        return div(number(0.5), id);
      case Op::sigmoid:
        return mul(id, sub(number(1), id));
      case Op::sin:
        return e_.apply(Op::cos, a);
      case Op::cos:
        return e_.apply(Op::neg, e_.apply(Op::sin, a));
      case Op::pow:
        return mul(number(node.number), e_.power(a, node.number - 1));
      default:
        throw std::logic_error("no derivative of " + std::string(to_string(node.op)));
    }
  }

  const Function& function_;
  const int parameter_;
  Expressions e_;
  std::vector<int> derivatives_;  // of each node; -1 where it is not needed
};

template <class T>
bool overflows(const Function& function, const Function& slope, double at) {
  const std::vector<T> arguments(function.parameters.size(), static_cast<T>(at));
  return std::isfinite(evaluate(function, arguments)) && !std::isfinite(evaluate(slope, arguments));
}

}  // namespace

Function derivative(const Function& function, int parameter) {
  return Differentiation(function, parameter).run();
}

bool is_zero(const Function& function) {
  const Node& result = function.nodes[static_cast<size_t>(function.result)];
  return result.op == Op::constant && result.number == 0;
}

std::optional<double> where_derivative_overflows(const Function& function, int parameter) {
  const Function slope = derivative(function, parameter);
  for (const double size : {0.0, 0.5, 1.0, 10.0, 60.0, 100.0, 1e3, 1e4}) {
    for (const double at : {size, -size}) {
      const bool bad = function.number == Number::f32 ? overflows<float>(function, slope, at)
                                                      : overflows<double>(function, slope, at);
      if (bad) return at;
    }
  }
  return std::nullopt;
}

}  // namespace hydrac::functions
