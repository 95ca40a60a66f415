#include "functions/expressions.h"

#include <cmath>
#include <utility>

namespace hydrac::functions {

Expressions::Expressions(const Function& function) : number_(function.number), nodes_(function.nodes) {
  for (size_t i = 0; i < nodes_.size(); ++i) interned_.emplace(nodes_[i], static_cast<int>(i));
}

int Expressions::intern(Node node) {
  const auto [found, is_new] = interned_.emplace(node, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(std::move(node));
  return found->second;
}

int Expressions::constant(double value) {
  return intern({.op = Op::constant, .number = value});
}

int Expressions::argument(int parameter) {
  return intern({.op = Op::argument, .parameter = parameter});
}

std::optional<double> Expressions::folded(const std::vector<Node>& nodes) const {
  const Function function{"", {}, number_, nodes, static_cast<int>(nodes.size()) - 1};
  const double value =
      number_ == Number::f32 ? evaluate<float>(function, {}) : evaluate<double>(function, {});
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

int Expressions::apply(Op op, int a) {
  if (op == Op::logical_not) return inverted(truth(a));
  if (is_constant(a)) {
    if (const auto value = folded({node(a), {.op = op, .args = {0}}})) return constant(*value);
  }
  return op == Op::neg ? negated(a) : intern({.op = op, .args = {a}});
}

int Expressions::apply(Op op, int a, int b) {
  if (op == Op::logical_and || op == Op::logical_or) return logical(op, truth(a), truth(b));
  if (is_constant(a) && is_constant(b)) {
    if (const auto value = folded({node(a), node(b), {.op = op, .args = {0, 1}}})) return constant(*value);
  }
  switch (op) {
    case Op::add:
      return sum(a, b);
    case Op::sub:
      return difference(a, b);
    case Op::mul:
      return product(a, b);
    case Op::div:
      return quotient(a, b);
    default:
      return intern({.op = op, .args = {a, b}});
  }
}

int Expressions::select(int condition, int if_true, int if_false) {
  condition = truth(condition);
  if (is_constant(condition)) return node(condition).number != 0 ? if_true : if_false;
  if (if_true == if_false) return if_true;
  if (node(condition).op == Op::logical_not) return select(node(condition).args[0], if_false, if_true);
  if (is_condition(if_true) || is_condition(if_false))
    return logical(Op::logical_or, logical(Op::logical_and, condition, truth(if_true)),
                   logical(Op::logical_and, inverted(condition), truth(if_false)));
  return intern({.op = Op::select, .args = {condition, if_true, if_false}});
}

bool Expressions::is_condition(int id) const {
  return node(id).op >= Op::less && node(id).op <= Op::logical_or;
}

int Expressions::truth(int id) {
  if (is_condition(id)) return id;
  if (is_constant(id)) return constant(node(id).number != 0);
  return inverted(apply(Op::equal, id, constant(0)));
}

int Expressions::inverted(int condition) {
  if (is_constant(condition)) return constant(node(condition).number == 0);
  if (node(condition).op == Op::logical_not) return node(condition).args[0];
  return intern({.op = Op::logical_not, .args = {condition}});
}

int Expressions::logical(Op op, int a, int b) {
  if (is_constant(a)) std::swap(a, b);
  if (!is_constant(b)) return intern({.op = op, .args = {a, b}});
  const bool keeps = (node(b).number != 0) == (op == Op::logical_and);
  return keeps ? a : b;
}

int Expressions::power(int a, double exponent) {
  constexpr double kLargest = 16;
  if (std::abs(exponent) > kLargest || exponent * 2 != std::floor(exponent * 2))
    return intern({.op = Op::pow, .number = exponent, .args = {a}});
  if (exponent < 0) return quotient(constant(1), power(a, -exponent));
  int result = constant(1);
  if (exponent != std::floor(exponent)) result = apply(Op::sqrt, a);
  int square = a;
  for (auto left = static_cast<int>(exponent); left > 0; left /= 2) {
    if (left % 2 != 0) result = product(square, result);
    if (left > 1) square = product(square, square);
  }
  return result;
}

int Expressions::negated(int a) {
  const Node inner = node(a);
  if (inner.op == Op::neg) return inner.args[0];
  if (inner.op == Op::sub) return difference(inner.args[1], inner.args[0]);
  if (inner.op == Op::mul && is_constant(inner.args[0]))
    return product(constant(-node(inner.args[0]).number), inner.args[1]);
  return intern({.op = Op::neg, .args = {a}});
}

int Expressions::sum(int a, int b) {
  if (is_constant(a, 0)) return b;
  if (is_constant(b, 0)) return a;
  if (node(b).op == Op::neg) return difference(a, node(b).args[0]);
  if (node(a).op == Op::neg) return difference(b, node(a).args[0]);
  return intern({.op = Op::add, .args = {a, b}});
}

int Expressions::difference(int a, int b) {
  if (is_constant(b, 0)) return a;
  if (is_constant(a, 0)) return apply(Op::neg, b);
  if (node(b).op == Op::neg) return sum(a, node(b).args[0]);
  return intern({.op = Op::sub, .args = {a, b}});
}

// A constant factor stands first.
int Expressions::product(int a, int b) {
  if (is_constant(b) && !is_constant(a)) std::swap(a, b);
  if (is_constant(a, 1)) return b;
  if (is_constant(a, -1)) return apply(Op::neg, b);
  if (node(b).op == Op::neg && is_constant(a)) return product(constant(-node(a).number), node(b).args[0]);
  return intern({.op = Op::mul, .args = {a, b}});
}

int Expressions::quotient(int a, int b) {
  if (is_constant(b, 1)) return a;
  if (node(b).op == Op::add) {
    const std::vector<int> terms = node(b).args;
    for (const int i : {0, 1}) {
      const auto one = static_cast<size_t>(i), other = static_cast<size_t>(1 - i);
      if (is_constant(terms[one], 1) && node(terms[other]).op == Op::exp)
        return over_one_plus_exp(a, terms[other]);
    }
  }
  return intern({.op = Op::div, .args = {a, b}});
}

// numerator / (1 + exponential): with a factor exp(u) above, exp(u) / (1 + exp(u)) is sigmoid(u); else
// 1 / (1 + exp(u)) is sigmoid(-u).
int Expressions::over_one_plus_exp(int numerator, int exponential) {
  const int u = node(exponential).args[0];
  if (const int rest = without_factor(numerator, exponential); rest >= 0)
    return product(rest, apply(Op::sigmoid, u));
  return product(numerator, apply(Op::sigmoid, apply(Op::neg, u)));
}

// `id` with one factor `factor` less; -1 where it has none.
int Expressions::without_factor(int id, int factor) {
  if (id == factor) return constant(1);
  const Node expression = node(id);
  if (expression.op == Op::neg) {
    const int rest = without_factor(expression.args[0], factor);
    return rest < 0 ? rest : apply(Op::neg, rest);
  }
  if (expression.op != Op::mul) return -1;
  for (const int i : {0, 1}) {
    const int rest = without_factor(expression.args[static_cast<size_t>(i)], factor);
    if (rest >= 0) return product(rest, expression.args[static_cast<size_t>(1 - i)]);
  }
  return -1;
}

Function Expressions::take(int result, std::string name, std::vector<std::string> parameters) const {
  std::vector<bool> needed(nodes_.size(), false);
  needed[static_cast<size_t>(result)] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int arg : nodes_[i].args) needed[static_cast<size_t>(arg)] = true;
  }
  Function function{std::move(name), std::move(parameters), number_, {}, -1};
  std::vector<int> position(nodes_.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!needed[i]) continue;
    position[i] = static_cast<int>(function.nodes.size());
    Node node = nodes_[i];
    for (int& arg : node.args) arg = position[static_cast<size_t>(arg)];
    function.nodes.push_back(std::move(node));
  }
  function.result = position[static_cast<size_t>(result)];
  return function;
}

Function bound(const Function& function, int parameter, double value) {
  Expressions e(function.number);
  std::vector<int> made;
  for (const Node& node : function.nodes) {
    const auto arg = [&](size_t i) { return made[static_cast<size_t>(node.args[i])]; };
    if (node.op == Op::constant)
      made.push_back(e.constant(node.number));
    else if (node.op == Op::argument)
      made.push_back(node.parameter == parameter ? e.constant(value) : e.argument(node.parameter));
    else if (node.op == Op::pow)
      made.push_back(e.power(arg(0), node.number));
    else if (node.args.size() == 1)
      made.push_back(e.apply(node.op, arg(0)));
    else if (node.args.size() == 2)
      made.push_back(e.apply(node.op, arg(0), arg(1)));
    else
      made.push_back(e.select(arg(0), arg(1), arg(2)));
  }
  return e.take(made[static_cast<size_t>(function.result)], function.name, function.parameters);
}

}  // namespace hydrac::functions
