// Builds a Function's nodes: equal ones become one, and what is simpler and means the same is made instead.
#pragma once
#include <map>
#include <optional>

#include "functions/function.h"

namespace hydrac::functions {

class Expressions {
 public:
  // Results computed from constants alone are rounded to `number`.
  explicit Expressions(Number number) : number_(number) {}
  // Goes on where a function ends; its nodes keep their positions.
  explicit Expressions(const Function& function);

  int constant(double value);
  int argument(int parameter);

  // Simplifies where no value changes (x + 0, x * 1, --x, a choice between equal operands). One
  // simplification changes the last bit: a / (1 + exp(-u)) and a * exp(u) / (1 + exp(u)) become a *
  // sigmoid(u), because its derivative stays finite where exp overflows.
  int apply(Op op, int a);
  int apply(Op op, int a, int b);
  int select(int condition, int if_true, int if_false);
  // a to the power `exponent`: products and square roots for multiples of 1/2 up to 16. powf would round
  // once; these round a few times.
  int power(int a, double exponent);

  bool is_constant(int id) const { return node(id).op == Op::constant; }
  bool is_constant(int id, double value) const { return is_constant(id) && node(id).number == value; }
  const Node& node(int id) const { return nodes_[static_cast<size_t>(id)]; }
  size_t size() const { return nodes_.size(); }

  // The function `result` without the nodes it does not need.
  Function take(int result, std::string name, std::vector<std::string> parameters) const;

 private:
  int intern(Node node);
  // The value of the last node, where it is finite: no kernel has another constant.
  std::optional<double> folded(const std::vector<Node>& nodes) const;
  bool is_condition(int id) const;
  // The expression as a condition, or a constant 0 or 1. Only the logical nodes and the first argument of a
  // choice take one.
  int truth(int id);
  int inverted(int condition);
  int logical(Op op, int a, int b);
  int negated(int a);
  int sum(int a, int b);
  int difference(int a, int b);
  int product(int a, int b);
  int quotient(int a, int b);
  int over_one_plus_exp(int numerator, int exponential);
  int without_factor(int id, int factor);

  Number number_;
  std::vector<Node> nodes_;
  std::map<Node, int> interned_;
};

// The function with parameter `parameter` fixed at `value`, and constants folded. Its parameter list stays
// the same.
Function bound(const Function& function, int parameter, double value);

}  // namespace hydrac::functions
