#include "ir/evaluate_scalar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "hydrac/dynamic_code.h"
#include "hydrac/nf4.h"
#include "hydrac/random.h"

namespace hydrac::ir {

namespace {

// The nearest number with `digits` binary digits, ties to even, at most `largest`; 2^least is the last digit
// of the smallest numbers.
double round_binary(double x, int digits, int least, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

double round_to(double x, DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return round_binary(x, 8, -133, std::ldexp(255.0, 120));
    case DType::f16:
      return round_binary(x, 11, -24, 65504);
    case DType::f8e4m3:
      return std::clamp(round_binary(x, 4, -9, 1e300), -448.0, 448.0);
    case DType::f8e5m2:
      return std::clamp(round_binary(x, 3, -16, 1e300), -57344.0, 57344.0);
    default:
      return x;
  }
}

double converted(ExprType type, double x) {
  const bool whole = type == ExprType::i32 || type == ExprType::u32 || type == ExprType::i64;
  return whole ? std::trunc(x) : x;
}

}  // namespace

double evaluate(const Expr& expr, const std::array<double, 3>& args) {
  const auto word = [&](size_t i) { return static_cast<uint32_t>(static_cast<int64_t>(args[i])); };
  switch (expr.op) {
    case ExprOp::constant:
      return expr.number;
    case ExprOp::neg:
      return -args[0];
    case ExprOp::abs:
      return std::abs(args[0]);
    case ExprOp::exp:
      return std::exp(args[0]);
    case ExprOp::expm1:
      return std::expm1(args[0]);
    case ExprOp::log:
      return std::log(args[0]);
    case ExprOp::log1p:
      return std::log1p(args[0]);
    case ExprOp::tanh:
      return std::tanh(args[0]);
    case ExprOp::erf:
      return std::erf(args[0]);
    case ExprOp::sqrt:
      return std::sqrt(args[0]);
    case ExprOp::rsqrt:
      return 1 / std::sqrt(args[0]);
    case ExprOp::sigmoid:
      return 1 / (1 + std::exp(-args[0]));
    case ExprOp::sin:
      return std::sin(args[0]);
    case ExprOp::cos:
      return std::cos(args[0]);
    case ExprOp::floor:
      return std::floor(args[0]);
    case ExprOp::is_nan:
      return std::isnan(args[0]);
    case ExprOp::is_finite:
      return std::isfinite(args[0]);
    case ExprOp::add:
      return args[0] + args[1];
    case ExprOp::sub:
      return args[0] - args[1];
    case ExprOp::mul:
      return args[0] * args[1];
    case ExprOp::div:
      return converted(expr.type, args[0] / args[1]);
    case ExprOp::remainder:
      return std::fmod(args[0], args[1]);
    case ExprOp::max:
      return std::max(args[0], args[1]);
    case ExprOp::min:
      return std::min(args[0], args[1]);
    case ExprOp::less:
      return args[0] < args[1];
    case ExprOp::less_equal:
      return args[0] <= args[1];
    case ExprOp::equal:
      return args[0] == args[1];
    case ExprOp::logical_not:
      return args[0] == 0;
    case ExprOp::logical_and:
      return args[0] != 0 && args[1] != 0;
    case ExprOp::logical_or:
      return args[0] != 0 || args[1] != 0;
    case ExprOp::fma:
      return std::fma(args[0], args[1], args[2]);
    case ExprOp::select:
      return args[0] != 0 ? args[1] : args[2];
    case ExprOp::round_to:
      return round_to(args[0], expr.dtype);
    case ExprOp::convert:
      return converted(expr.type, args[0]);
    case ExprOp::random_key:
      return hydrac::random_key(word(0), word(1), word(2));
    case ExprOp::random_16_bits:
      return hydrac::random_16_bits(word(0), static_cast<uint64_t>(args[1]));
    case ExprOp::round_stochastically:
      return hydrac::round_stochastically(static_cast<float>(args[0]), word(1));
    case ExprOp::dynamic_code:
      return hydrac::dynamic_code(static_cast<float>(args[0]));
    case ExprOp::dynamic_value:
      return hydrac::dynamic_value(word(0));
    case ExprOp::signed_dynamic_code:
      return hydrac::signed_dynamic_code(static_cast<float>(args[0]));
    case ExprOp::signed_dynamic_value:
      return hydrac::signed_dynamic_value(word(0));
    case ExprOp::nf4_upper:
      return hydrac::nf4_upper(word(0));
    case ExprOp::nf4_lower:
      return hydrac::nf4_lower(word(0));
    default:
      throw std::logic_error("an expression that its arguments do not say");
  }
}

}  // namespace hydrac::ir
