#include "codegen/expression_text.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace hydrac::codegen {

namespace {

using ir::ExprOp;
using ir::ExprType;

enum Precedence { kTernary, kOr, kAnd, kCompare, kAdditive, kMultiplicative, kUnary, kPrimary };

}  // namespace

std::string literal_text(const ir::Expr& expr) {
  switch (expr.type) {
    case ExprType::f32: {
      const auto value = static_cast<float>(expr.number);
      std::string text = fmt::format("{}", value);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text + "f";
    }
    case ExprType::f64: {
      std::string text = fmt::format("{}", expr.number);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text;
    }
    case ExprType::u32:
      return fmt::format("{}u", static_cast<uint32_t>(expr.number));
    default:
      return fmt::format("{}", static_cast<int64_t>(expr.number));
  }
}

std::string_view c_type(ExprType type) {
  static constexpr std::string_view names[] = {"float",         "double",       "std::int32_t",
                                               "std::uint32_t", "std::int64_t", "bool"};
  return names[static_cast<int>(type)];
}

std::string_view c_type(ir::DType dtype, const Dialect& dialect) {
  if (is_narrow_float(dtype) && !dialect.has_16_bits)
    throw std::logic_error("no C++ type for this storage type on this target");
  static constexpr std::string_view names[] = {"float",         "bf16",         "f16",    "std::int32_t",
                                               "std::uint32_t", "std::uint8_t", "f8e4m3", "f8e5m2"};
  return names[static_cast<int>(dtype)];
}

std::string affine_text(const ir::Affine& affine, const VariableNames& variables,
                        const std::function<std::string(int64_t)>& number) {
  const auto digits = [&](int64_t value) { return number ? number(value) : std::to_string(value); };
  std::string text;
  for (const auto& [variable, coefficient] : affine.terms) {
    if (!text.empty()) text += " + ";
    const std::string& name = variables[variable];
    const bool is_sum = coefficient != 1 && name.find(' ') != std::string::npos;
    text += is_sum ? "(" + name + ")" : name;
    if (coefficient != 1) text += " * " + digits(coefficient);
  }
  if (affine.constant != 0 || text.empty()) {
    std::string constant = digits(affine.constant);
    if (constant.starts_with('(') && constant.find(')') == constant.size() - 1)  // a summand needs none
      constant = constant.substr(1, constant.size() - 2);
    text += (text.empty() ? "" : " + ") + constant;
  }
  return text;
}

ExpressionText::Piece ExpressionText::text(ir::ExprId id) const {
  if (std::string name = named_(id); !name.empty()) return {name, kPrimary};
  return written(id);
}

ExpressionText::Piece ExpressionText::text_beside(ir::ExprId id, ir::ExprId other) const {
  if (body_.exprs[id].op != ExprOp::constant) return text(id);
  const std::string name = constant_(id, other);
  if (name.empty()) return written(id);
  return {name, name.find(' ') == std::string::npos ? kPrimary : kMultiplicative};
}

// C++ compares integers of two widths as the wider one.
ExpressionText::Piece ExpressionText::comparable(ir::ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  const bool widens = expr.op == ExprOp::convert && expr.type == ExprType::i64 && named_(id).empty() &&
                      body_.exprs[expr.args[0]].type == ExprType::i32;
  return widens ? text(expr.args[0]) : text(id);
}

ExpressionText::Piece ExpressionText::binary(const ir::Expr& expr, const char* op, int precedence) const {
  const bool compares = precedence == kCompare;
  const Piece a = compares ? comparable(expr.args[0]) : text_beside(expr.args[0], expr.args[1]);
  const Piece b = compares ? comparable(expr.args[1]) : text_beside(expr.args[1], expr.args[0]);
  const std::string left = a.precedence < precedence ? "(" + a.text + ")" : a.text;
  const std::string right = b.precedence <= precedence ? "(" + b.text + ")" : b.text;
  return {fmt::format("{} {} {}", left, op, right), precedence};
}

std::string ExpressionText::call(const std::string& function, const ir::Expr& expr) const {
  std::string arguments;
  for (ir::ExprId arg : expr.args) arguments += (arguments.empty() ? "" : ", ") + text(arg).text;
  return function + "(" + arguments + ")";
}

// Whether rounding changes nothing.
bool ExpressionText::is_rounded(ir::ExprId id, ir::DType dtype) const {
  const ir::Expr& expr = body_.exprs[id];
  if (dtype == ir::DType::f32) return true;
  if (expr.op == ExprOp::load) return body_.operands[expr.operand].dtype == dtype;
  return (expr.op == ExprOp::round_to || expr.op == ExprOp::round_stochastically) && expr.dtype == dtype;
}

ExpressionText::Piece ExpressionText::written(ir::ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  const std::string library(expr.type == ExprType::f64 ? dialect_.math : "");
  switch (expr.op) {
    case ExprOp::constant:
      if (std::string name = constant_(id, -1); !name.empty()) return {name, kPrimary};
      return {literal_text(expr), expr.number < 0 ? kUnary : kPrimary};
    case ExprOp::load:
      return {load_(expr), kPrimary};
    case ExprOp::position: {
      const ir::Affine& affine = expr.index[0].affine;
      const bool is_sum = affine.terms.size() > 1 || affine.constant != 0 || affine.terms.empty() ||
                          variables_[affine.terms[0].first].find(' ') != std::string::npos;
      if (range_of(body_, affine).second < (int64_t{1} << 31))
        return {position_(affine), is_sum ? kAdditive : kMultiplicative};
      return {fmt::format("std::int64_t{{{}}}", position_(affine)), kPrimary};
    }
    case ExprOp::layer:
      return {"layer", kPrimary};
    case ExprOp::neg: {
      const Piece a = text(expr.args[0]);
      return {"-" + (a.precedence <= kUnary ? "(" + a.text + ")" : a.text), kUnary};
    }
    case ExprOp::abs:
    case ExprOp::exp:
    case ExprOp::expm1:
    case ExprOp::log:
    case ExprOp::log1p:
    case ExprOp::tanh:
    case ExprOp::erf:
    case ExprOp::sin:
    case ExprOp::cos:
    case ExprOp::fma:
      return {call(library + std::string(to_string(expr.op)), expr), kPrimary};
    case ExprOp::rsqrt:
    case ExprOp::sigmoid:
    case ExprOp::dynamic_code:
    case ExprOp::dynamic_value:
    case ExprOp::signed_dynamic_code:
    case ExprOp::signed_dynamic_value:
    case ExprOp::nf4_upper:
    case ExprOp::nf4_lower:
      return {call(std::string(to_string(expr.op)), expr), kPrimary};
    case ExprOp::sqrt:
    case ExprOp::floor:
      return {call(std::string(dialect_.math) + std::string(to_string(expr.op)), expr), kPrimary};
    case ExprOp::is_nan: {
      const Piece a = text(expr.args[0]);
      const std::string operand = a.precedence <= kCompare ? "(" + a.text + ")" : a.text;
      return {fmt::format("{0} != {0}", operand), kCompare};
    }
    case ExprOp::add:
      return binary(expr, "+", kAdditive);
    case ExprOp::sub:
      return binary(expr, "-", kAdditive);
    case ExprOp::mul:
      return binary(expr, "*", kMultiplicative);
    case ExprOp::div:
      return binary(expr, "/", kMultiplicative);
    case ExprOp::max:
      return {call(std::string(dialect_.min_max) + "max", expr), kPrimary};
    case ExprOp::min:
      return {call(std::string(dialect_.min_max) + "min", expr), kPrimary};
    case ExprOp::less:
      return binary(expr, "<", kCompare);
    case ExprOp::less_equal:
      return binary(expr, "<=", kCompare);
    case ExprOp::equal:
      return binary(expr, "==", kCompare);
    case ExprOp::logical_not: {
      const Piece a = text(expr.args[0]);
      return {"!" + (a.precedence < kUnary ? "(" + a.text + ")" : a.text), kUnary};
    }
    case ExprOp::logical_and:
      return binary(expr, "&&", kAnd);
    case ExprOp::logical_or:
      return binary(expr, "||", kOr);
    case ExprOp::select: {
      const Piece condition = text(expr.args[0]), yes = text(expr.args[1]), no = text(expr.args[2]);
      const std::string question =
          condition.precedence <= kTernary ? "(" + condition.text + ")" : condition.text;
      return {fmt::format("{} ? {} : {}", question, yes.text, no.text), kTernary};
    }
    case ExprOp::convert:
      return {fmt::format("static_cast<{}>({})", c_type(expr.type), text(expr.args[0]).text), kPrimary};
    case ExprOp::random_key: {
      return {fmt::format("random_key({}, {}, {})", text(expr.args[0]).text, text(expr.args[1]).text,
                          text(expr.args[2]).text),
              kPrimary};
    }
    case ExprOp::random_16_bits:
    case ExprOp::round_stochastically:
      return {call(std::string(to_string(expr.op)), expr), kPrimary};
    case ExprOp::round_to:
      if (is_rounded(expr.args[0], expr.dtype)) return text(expr.args[0]);
      if (!dialect_.has_16_bits) break;
      return {call(fmt::format("round_to<{}>", to_string(expr.dtype)), expr), kPrimary};
    case ExprOp::sum:
    case ExprOp::maximum:
    case ExprOp::logsumexp:
      break;
  }
  throw std::logic_error(fmt::format("{} has no text of its own", to_string(expr.op)));
}

}  // namespace hydrac::codegen
