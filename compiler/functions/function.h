// A user's C++ function as data: the result as a list of operations on its arguments. specialize/ makes it
// from the C++ text; ops/ and optimizers/ put it into kernels; verify/ gives it to the oracle.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::functions {

enum class Op {
  constant,  // `number`
  argument,  // parameter `parameter`
  neg,
  abs,
  exp,
  expm1,
  log,
  log1p,
  tanh,
  erf,
  sqrt,
  sigmoid,
  sin,
  cos,
  floor,
  pow,  // args[0] to the power `number`
  add,
  sub,
  mul,
  div,
  max,  // of equal ones the first
  min,
  less,  // from here on: conditions
  less_equal,
  equal,
  logical_not,
  logical_and,
  logical_or,
  select,  // args: condition, value if true, value if false
};

std::string_view to_string(Op op);

struct Node {
  Op op = Op::constant;
  double number = 0;
  int parameter = -1;
  std::vector<int> args;  // positions in Function::nodes
  auto operator<=>(const Node&) const = default;
};

// All numbers are of one type: the parameters, the result, and everything between.
enum class Number { f32, f64 };

struct Function {
  std::string name;                     // a C identifier
  std::vector<std::string> parameters;  // their names
  Number number = Number::f32;
  std::vector<Node> nodes;  // arguments stand before their users; no two are equal
  int result = -1;

  bool operator==(const Function&) const = default;
};

// The value at the given arguments, one a parameter, each operation rounded to T.
template <class T>
T evaluate(const Function& function, const std::vector<T>& arguments);
extern template float evaluate(const Function&, const std::vector<float>&);
extern template double evaluate(const Function&, const std::vector<double>&);

}  // namespace hydrac::functions
