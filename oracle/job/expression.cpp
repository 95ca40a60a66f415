#include "oracle/job/expression.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

// How many earlier nodes each operation takes.
const std::map<std::string, std::size_t>& operations() {
  static const std::map<std::string, std::size_t> table = {
      {"constant", 0},    {"argument", 0},    {"neg", 1},        {"abs", 1},        {"exp", 1},
      {"expm1", 1},       {"log", 1},         {"log1p", 1},      {"tanh", 1},       {"erf", 1},
      {"sqrt", 1},        {"sigmoid", 1},     {"sin", 1},        {"cos", 1},        {"floor", 1},
      {"pow", 1},         {"add", 2},         {"sub", 2},        {"mul", 2},        {"div", 2},
      {"max", 2},         {"min", 2},         {"less", 2},       {"less_equal", 2}, {"equal", 2},
      {"logical_not", 1}, {"logical_and", 2}, {"logical_or", 2}, {"select", 3}};
  return table;
}

// ["mul", 0, 1], ["constant", 1.5], ["argument", 0], ["pow", 2, 1.5]
ExpressionNode read_node(const json& list, std::size_t position, int parameters, const std::string& where) {
  if (!list.is_array() || list.empty() || !list[0].is_string())
    throw JobError(where + " must be a list that begins with an operation");
  ExpressionNode node{list[0].get<std::string>(), 0, {}};
  const auto found = operations().find(node.op);
  if (found == operations().end())
    throw JobError(fmt::format("{}: unknown operation \"{}\"", where, node.op));
  const bool has_number = node.op == "constant" || node.op == "argument" || node.op == "pow";
  if (list.size() != 1 + found->second + (has_number ? 1 : 0))
    throw JobError(fmt::format("{}: {} has {} operands", where, node.op, list.size() - 1));
  for (std::size_t i = 1; i <= found->second; ++i) {
    if (!list[i].is_number_integer() || list[i].get<std::int64_t>() < 0 ||
        list[i].get<std::int64_t>() >= static_cast<std::int64_t>(position))
      throw JobError(where + ": operands must be earlier nodes");
    node.args.push_back(list[i].get<int>());
  }
  if (has_number) {
    if (!list.back().is_number()) throw JobError(where + " must end with a number");
    node.number = list.back().get<double>();
  }
  if (node.op == "argument" && !(node.number >= 0 && node.number < parameters))
    throw JobError(where + ": there is no such parameter");
  return node;
}

double compute(const ExpressionNode& node, const std::vector<double>& arguments,
               const std::vector<double>& values) {
  const std::string& op = node.op;
  const auto arg = [&](std::size_t i) { return values[static_cast<std::size_t>(node.args[i])]; };
  if (op == "constant") return node.number;
  if (op == "argument") return arguments[static_cast<std::size_t>(node.number)];
  if (op == "neg") return -arg(0);
  if (op == "abs") return std::fabs(arg(0));
  if (op == "exp") return std::exp(arg(0));
  if (op == "expm1") return std::expm1(arg(0));
  if (op == "log") return std::log(arg(0));
  if (op == "log1p") return std::log1p(arg(0));
  if (op == "tanh") return std::tanh(arg(0));
  if (op == "erf") return std::erf(arg(0));
  if (op == "sqrt") return std::sqrt(arg(0));
  if (op == "sigmoid") return 1 / (1 + std::exp(-arg(0)));
  if (op == "sin") return std::sin(arg(0));
  if (op == "cos") return std::cos(arg(0));
  if (op == "floor") return std::floor(arg(0));
  if (op == "pow") return std::pow(arg(0), node.number);
  if (op == "add") return arg(0) + arg(1);
  if (op == "sub") return arg(0) - arg(1);
  if (op == "mul") return arg(0) * arg(1);
  if (op == "div") return arg(0) / arg(1);
  if (op == "max") return std::fmax(arg(0), arg(1));
  if (op == "min") return std::fmin(arg(0), arg(1));
  if (op == "less") return arg(0) < arg(1);
  if (op == "less_equal") return arg(0) <= arg(1);
  if (op == "equal") return arg(0) == arg(1);
  if (op == "logical_not") return arg(0) == 0;
  if (op == "logical_and") return arg(0) != 0 && arg(1) != 0;
  if (op == "logical_or") return arg(0) != 0 || arg(1) != 0;
  return arg(0) != 0 ? arg(1) : arg(2);
}

}  // namespace

Expression read_expression(JsonReader in) {
  Expression expression;
  expression.parameters = static_cast<int>(in.integer("parameters", 1, 2));
  for (const json& list : in.array("nodes")) {
    const std::size_t position = expression.nodes.size();
    expression.nodes.push_back(
        read_node(list, position, expression.parameters, fmt::format("{}[{}]", in.place("nodes"), position)));
  }
  if (expression.nodes.empty()) throw JobError(in.place("nodes") + " is empty");
  expression.result =
      static_cast<int>(in.integer("result", 0, static_cast<std::int64_t>(expression.nodes.size()) - 1));
  in.expect_no_more();
  return expression;
}

double evaluate(const Expression& expression, const std::vector<double>& arguments) {
  std::vector<double> values;
  for (const ExpressionNode& node : expression.nodes) values.push_back(compute(node, arguments, values));
  return values[static_cast<std::size_t>(expression.result)];
}

}  // namespace hydrac::oracle
