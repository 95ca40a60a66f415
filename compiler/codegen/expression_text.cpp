#include "codegen/expression_text.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace hydrac::codegen {

using ir::ExprOp;
using ir::ExprType;

namespace {

std::string number_text_of(const ir::Expr& constant) {
  switch (constant.type) {
    case ExprType::f32:
      return number_text(static_cast<float>(constant.number));
    case ExprType::f64:
      return number_text(constant.number);
    case ExprType::u32:
      return number_text(static_cast<uint32_t>(constant.number));
    default:
      return number_text(static_cast<int64_t>(constant.number));
  }
}

}  // namespace

Code constant_text(const ir::Expr& constant) {
  const std::string text = number_text_of(constant);
  return code(text.starts_with('-') ? Precedence::unary : Precedence::primary, "{}", text);
}

std::string_view c_type(ExprType type) {
  static constexpr std::string_view names[] = {"float",         "double",       "std::int32_t",
                                               "std::uint32_t", "std::int64_t", "bool"};
  return names[static_cast<int>(type)];
}

std::string_view c_type(ir::DType dtype, const Dialect& dialect) {
  if (is_narrow_float(dtype) && !dialect.has_16_bits)
    throw std::logic_error("no C++ type for this storage type on this target");
  static constexpr std::string_view names[] = {
#define HYDRAC_DTYPE(name, bytes, type, stored) type,
#include "runtime/base/dtypes.def"
  };
  return names[static_cast<int>(dtype)];
}

Code affine_code(const ir::Affine& affine, const VariableNames& variables,
                 const std::function<Size(int64_t)>& number) {
  Code sum;
  for (const auto& [variable, coefficient] : affine.terms) {
    const Code& name = variables[variable];
    sum =
        sum_of(sum, coefficient == 1 ? name
                                     : code(Precedence::product, "{} * {}", within(name, Precedence::product),
                                            as_factor(number(coefficient))));
  }
  if (affine.constant == 0 && !sum.empty()) return sum;
  return sum_of(sum, number(affine.constant).code);
}

Code ExpressionText::of(ir::ExprId id) const {
  Code name = named_(id);
  return name.empty() ? definition(id) : name;
}

Code ExpressionText::beside(ir::ExprId id, ir::ExprId other) const {
  if (body_.exprs[id].op != ExprOp::constant) return of(id);
  Code name = constant_(id, other);
  return name.empty() ? definition(id) : name;
}

// C++ compares integers of two widths as the wider one.
Code ExpressionText::comparable(ir::ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  const bool widens = expr.op == ExprOp::convert && expr.type == ExprType::i64 && named_(id).empty() &&
                      body_.exprs[expr.args[0]].type == ExprType::i32;
  return of(widens ? expr.args[0] : id);
}

Code ExpressionText::binary(const ir::Expr& expr, const char* op, Precedence precedence) const {
  const bool compares = precedence == Precedence::comparison;
  const Code a = compares ? comparable(expr.args[0]) : beside(expr.args[0], expr.args[1]);
  const Code b = compares ? comparable(expr.args[1]) : beside(expr.args[1], expr.args[0]);
  return code(precedence, "{} {} {}", within(a, precedence), op, within(b, tighter(precedence)));
}

Code ExpressionText::call(const std::string& function, const ir::Expr& expr) const {
  std::vector<Code> arguments;
  for (ir::ExprId arg : expr.args) arguments.push_back(of(arg));
  return code("{}({})", function, joined(arguments, ", "));
}

// True if rounding to `dtype` changes nothing.
bool ExpressionText::is_rounded(ir::ExprId id, ir::DType dtype) const {
  const ir::Expr& expr = body_.exprs[id];
  if (dtype == ir::DType::f32) return true;
  if (expr.op == ExprOp::load) return body_.operands[expr.operand].dtype == dtype;
  return (expr.op == ExprOp::round_to || expr.op == ExprOp::round_stochastically) && expr.dtype == dtype;
}

Code ExpressionText::definition(ir::ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  const std::string library(expr.type == ExprType::f64 ? dialect_.math : "");
  switch (expr.op) {
    case ExprOp::constant:
      if (Code name = constant_(id, -1); !name.empty()) return name;
      return constant_text(expr);
    case ExprOp::load:
      return load_(expr);
    case ExprOp::position: {
      const ir::Affine& affine = expr.index[0].affine;
      const Code at = position_(affine);
      if (range_of(body_, affine).second >= (int64_t{1} << 31)) return code("std::int64_t{{{}}}", at);
      const bool is_sum = affine.terms.size() > 1 || affine.constant != 0 || affine.terms.empty() ||
                          variables_[affine.terms[0].first].precedence < Precedence::product;
      return code(is_sum ? Precedence::sum : Precedence::product, "{}", at);
    }
    case ExprOp::layer:
      return "layer";
    case ExprOp::neg:
      return code(Precedence::unary, "-{}", within(of(expr.args[0]), Precedence::primary));
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
      return call(library + std::string(to_string(expr.op)), expr);
    case ExprOp::rsqrt:
    case ExprOp::sigmoid:
    case ExprOp::dynamic_code:
    case ExprOp::dynamic_value:
    case ExprOp::signed_dynamic_code:
    case ExprOp::signed_dynamic_value:
    case ExprOp::nf4_upper:
    case ExprOp::nf4_lower:
      return call(std::string(to_string(expr.op)), expr);
    case ExprOp::sqrt:
    case ExprOp::floor:
      return call(std::string(dialect_.math) + std::string(to_string(expr.op)), expr);
    case ExprOp::is_nan:
      return code(Precedence::comparison, "{0} != {0}", within(of(expr.args[0]), Precedence::sum));
    case ExprOp::is_finite:
      return call(std::string(dialect_.plain) + "isfinite", expr);
    case ExprOp::add:
      return binary(expr, "+", Precedence::sum);
    case ExprOp::sub:
      return binary(expr, "-", Precedence::sum);
    case ExprOp::mul:
      return binary(expr, "*", Precedence::product);
    case ExprOp::div:
      return binary(expr, "/", Precedence::product);
    case ExprOp::remainder:
      return binary(expr, "%", Precedence::product);
    case ExprOp::max:
      return call(std::string(dialect_.plain) + "max", expr);
    case ExprOp::min:
      return call(std::string(dialect_.plain) + "min", expr);
    case ExprOp::less:
      return binary(expr, "<", Precedence::comparison);
    case ExprOp::less_equal:
      return binary(expr, "<=", Precedence::comparison);
    case ExprOp::equal:
      return binary(expr, "==", Precedence::comparison);
    case ExprOp::logical_not:
      return code(Precedence::unary, "!{}", within(of(expr.args[0]), Precedence::unary));
    case ExprOp::logical_and:
      return binary(expr, "&&", Precedence::logical_and);
    case ExprOp::logical_or:
      return binary(expr, "||", Precedence::logical_or);
    case ExprOp::select:
      return code(Precedence::ternary, "{} ? {} : {}", within(of(expr.args[0]), Precedence::logical_or),
                  of(expr.args[1]), of(expr.args[2]));
    case ExprOp::convert: {
      const ir::Expr& from = body_.exprs[expr.args[0]];
      if (from.op == ExprOp::position && expr.type == ExprType::i32) {
        const auto [first, last] = range_of(body_, from.index[0].affine);
        if (first == last) return code(Precedence::primary, "{}", first);  // of a dimension of one row
      }
      return code("static_cast<{}>({})", c_type(expr.type), of(expr.args[0]));
    }
    case ExprOp::random_key:
    case ExprOp::random_16_bits:
    case ExprOp::round_stochastically:
      return call(std::string(to_string(expr.op)), expr);
    case ExprOp::round_to:
      if (is_rounded(expr.args[0], expr.dtype)) return of(expr.args[0]);
      if (!dialect_.has_16_bits) break;
      return call(fmt::format("round_to<{}>", to_string(expr.dtype)), expr);
    case ExprOp::sum:
    case ExprOp::maximum:
    case ExprOp::logsumexp:
      break;
  }
  throw std::logic_error(fmt::format("{} has no text of its own", to_string(expr.op)));
}

}  // namespace hydrac::codegen
