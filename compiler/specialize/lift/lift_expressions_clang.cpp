// Expressions: operators, conversions, variables and calls.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "specialize/lift/lift_body.h"
#include "specialize/lift/lift_math.h"

namespace hydrac::specialize {

using clang::dyn_cast;
using clang::isa;
using functions::Number;
using functions::Op;

bool BodyLift::is_number(clang::QualType type) const {
  const auto* builtin = type.getCanonicalType()->getAs<clang::BuiltinType>();
  return builtin != nullptr && builtin->getKind() == (number_ == Number::f32 ? clang::BuiltinType::Float
                                                                             : clang::BuiltinType::Double);
}

int BodyLift::choice(int condition, int if_true, int if_false) {
  if (condition == kBad || if_true == kBad || if_false == kBad) return kBad;
  if (e_.is_constant(condition)) return e_.node(condition).number != 0 ? if_true : if_false;
  return e_.select(condition, if_true, if_false);
}

// The value of a constant expression, computed by Clang: literals, constexpr variables and functions.
std::optional<int> BodyLift::constant(const clang::Expr& expression) {
  clang::Expr::EvalResult result;
  if (expression.isValueDependent() || !expression.getType()->isArithmeticType() ||
      !expression.EvaluateAsRValue(result, ast_.context()) || result.HasSideEffects)
    return std::nullopt;
  double number = 0;
  if (result.Val.isFloat()) {
    llvm::APFloat value = result.Val.getFloat();
    bool is_rounded = false;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &is_rounded);
    number = value.convertToDouble();
  } else if (result.Val.isInt()) {
    number = result.Val.getInt().roundToDouble();
  } else {
    return std::nullopt;
  }
  if (std::isfinite(number)) return e_.constant(number);
  report(expression.getBeginLoc(), "a constant that is infinite or no number cannot be lifted");
  return kBad;
}

// True if a lifted function can have this type.
bool BodyLift::has_type(const clang::Expr& expression) {
  const clang::QualType type = expression.getType();
  if (is_number(type) || type->isBooleanType()) return true;
  if (type->isRealFloatingType()) {
    report_other_number(expression);
  } else if (type->isIntegerType()) {
    report(expression.getBeginLoc(), "integers that are no constants cannot be lifted into an expression",
           fmt::format("compute in {}", number_name()));
  } else {
    refuse(expression);
  }
  return false;
}

int BodyLift::value(const clang::Expr* expression, const Values& values) {
  expression = expression->IgnoreParens();
  if (is_exhausted()) return kBad;
  if (const std::optional<int> number = constant(*expression)) return *number;
  if (const auto* cleanups = dyn_cast<clang::FullExpr>(expression))
    return value(cleanups->getSubExpr(), values);
  if (const auto* temporary = dyn_cast<clang::MaterializeTemporaryExpr>(expression))
    return value(temporary->getSubExpr(), values);
  if (const auto* braces = dyn_cast<clang::InitListExpr>(expression); braces && braces->getNumInits() == 1)
    return value(braces->getInit(0), values);
  if (const auto* conversion = dyn_cast<clang::CastExpr>(expression)) return cast(*conversion, values);
  const auto* reference = dyn_cast<clang::DeclRefExpr>(expression);
  if (reference != nullptr && values.contains(reference->getDecl())) return variable(*reference, values);
  if (!has_type(*expression)) return kBad;
  if (reference != nullptr) return variable(*reference, values);
  if (const auto* one = dyn_cast<clang::UnaryOperator>(expression)) return unary(*one, values);
  if (const auto* two = dyn_cast<clang::BinaryOperator>(expression)) return binary(*two, values);
  if (const auto* three = dyn_cast<clang::ConditionalOperator>(expression)) {
    const int condition = value(three->getCond(), values);
    const int a = value(three->getTrueExpr(), values);
    return choice(condition, a, value(three->getFalseExpr(), values));
  }
  if (isa<clang::CXXOperatorCallExpr, clang::CXXMemberCallExpr>(expression)) {
    refuse(*expression);
    return kBad;
  }
  if (const auto* call = dyn_cast<clang::CallExpr>(expression)) return call_of(*call, values);
  refuse(*expression);
  return kBad;
}

int BodyLift::cast(const clang::CastExpr& cast, const Values& values) {
  const clang::Expr& inner = *cast.getSubExpr();
  switch (cast.getCastKind()) {
    case clang::CK_LValueToRValue:
    case clang::CK_NoOp:
      return value(&inner, values);
    case clang::CK_FloatingCast:
      // From or to a type that nothing here is computed in.
      report_other_number(is_number(inner.getType()) ? static_cast<const clang::Expr&>(cast) : inner);
      return kBad;
    case clang::CK_IntegralToFloating: {
      if (!is_number(cast.getType())) {
        report_other_number(cast);
        return kBad;
      }
      return whole(inner, values);
    }
    case clang::CK_FloatingToBoolean: {
      const int number = value(&inner, values);
      return number == kBad ? kBad : e_.apply(Op::logical_not, e_.apply(Op::equal, number, e_.constant(0)));
    }
    case clang::CK_FloatingToIntegral:
      report(cast.getBeginLoc(), "rounding to an integer cannot be lifted into an expression",
             differentiable_ ? "it is a step function, which nothing can be learned through"
                             : "write std::floor");
      return kBad;
    default:
      if (has_type(inner)) refuse(cast);
      return kBad;
  }
}

// A condition, or a choice between whole numbers, as a number.
int BodyLift::whole(const clang::Expr& expression, const Values& values) {
  const auto* choice_of = dyn_cast<clang::ConditionalOperator>(expression.IgnoreParenImpCasts());
  if (choice_of != nullptr && !choice_of->getType()->isBooleanType()) {
    const int condition = value(choice_of->getCond(), values);
    const int a = whole(*choice_of->getTrueExpr(), values);
    return choice(condition, a, whole(*choice_of->getFalseExpr(), values));
  }
  if (const std::optional<int> number = constant(expression)) return *number;
  const int condition = value(&expression, values);
  return choice(condition, e_.constant(1), e_.constant(0));
}

int BodyLift::variable(const clang::DeclRefExpr& reference, const Values& values) {
  const clang::ValueDecl& declaration = *reference.getDecl();
  if (const auto found = values.find(&declaration); found != values.end()) return found->second;
  const auto* variable = dyn_cast<clang::VarDecl>(&declaration);
  const std::string name = declaration.getNameAsString();
  if (variable != nullptr && variable->hasLocalStorage())
    report(reference.getBeginLoc(), fmt::format("{} may not have a value here", name),
           "give it one where it is declared");
  else
    report(reference.getBeginLoc(), fmt::format("{} is a variable outside of the function", name),
           "make it constexpr with its value, or a parameter");
  return kBad;
}

int BodyLift::unary(const clang::UnaryOperator& expression, const Values& values) {
  const clang::UnaryOperatorKind kind = expression.getOpcode();
  if (expression.isIncrementDecrementOp()) {
    report(expression.getBeginLoc(), "an assignment inside an expression cannot be lifted",
           "make it a statement of its own");
    return kBad;
  }
  if (kind != clang::UO_Minus && kind != clang::UO_Plus && kind != clang::UO_LNot) {
    refuse(expression);
    return kBad;
  }
  const int a = value(expression.getSubExpr(), values);
  if (a == kBad || kind == clang::UO_Plus) return a;
  return e_.apply(kind == clang::UO_Minus ? Op::neg : Op::logical_not, a);
}

int BodyLift::binary(const clang::BinaryOperator& expression, const Values& values) {
  if (expression.isAssignmentOp()) {
    report(expression.getOperatorLoc(), "an assignment inside an expression cannot be lifted",
           "make it a statement of its own");
    return kBad;
  }
  const clang::QualType compared = expression.getLHS()->getType();
  if (expression.isComparisonOp() && compared->isRealFloatingType() && !is_number(compared)) {
    report_other_number(expression);
    return kBad;
  }
  const int a = value(expression.getLHS(), values), b = value(expression.getRHS(), values);
  if (a == kBad || b == kBad) return kBad;
  const int result = combine(expression.getOpcode(), a, b);
  if (result == kBad)
    report(expression.getOperatorLoc(), fmt::format("the operator {} cannot be lifted into an expression",
                                                    expression.getOpcodeStr().str()));
  return result;
}

int BodyLift::combine(clang::BinaryOperatorKind kind, int a, int b) {
  switch (kind) {
    case clang::BO_Add:
    case clang::BO_AddAssign:
      return e_.apply(Op::add, a, b);
    case clang::BO_Sub:
      return e_.apply(Op::sub, a, b);
    case clang::BO_Mul:
      return e_.apply(Op::mul, a, b);
    case clang::BO_Div:
      return e_.apply(Op::div, a, b);
    case clang::BO_LT:
      return e_.apply(Op::less, a, b);
    case clang::BO_GT:
      return e_.apply(Op::less, b, a);
    case clang::BO_LE:
      return e_.apply(Op::less_equal, a, b);
    case clang::BO_GE:
      return e_.apply(Op::less_equal, b, a);
    case clang::BO_EQ:
      return e_.apply(Op::equal, a, b);
    case clang::BO_NE:
      return e_.apply(Op::logical_not, e_.apply(Op::equal, a, b));
    case clang::BO_LAnd:
      return e_.apply(Op::logical_and, a, b);
    case clang::BO_LOr:
      return e_.apply(Op::logical_or, a, b);
    default:
      return kBad;
  }
}

int BodyLift::call_of(const clang::CallExpr& call, const Values& values) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  if (callee == nullptr) {
    report(call.getBeginLoc(), "a call through a pointer cannot be lifted into an expression",
           "call the function by its name");
    return kBad;
  }
  std::vector<int> args;
  bool good = true;
  for (const clang::ParmVarDecl* parameter : callee->parameters()) {
    const clang::QualType type = parameter->getType();
    const bool by_value = !type->isReferenceType() || type->getPointeeType().isConstQualified();
    if (by_value && (is_number(type.getNonReferenceType()) || type.getNonReferenceType()->isBooleanType()))
      continue;
    report(call.getBeginLoc(), fmt::format("{} takes {}, and the function computes in {}",
                                           callee->getNameAsString(), type.getAsString(), number_name()));
    return kBad;
  }
  for (const clang::Expr* argument : call.arguments()) {
    args.push_back(value(argument, values));
    good &= args.back() != kBad;
  }
  if (!good) return kBad;
  if (!is_in_the_file(callee->getLocation())) return math_call(call, *callee, args);
  const std::string name = callee->getNameAsString();
  if (!callee->hasBody()) {
    report(call.getBeginLoc(), fmt::format("{} is declared, and its definition is not in this file", name),
           "a function and what it calls must stand in one file");
    return kBad;
  }
  if (std::ranges::count(stack_, callee->getCanonicalDecl()) > 0) {
    report(call.getBeginLoc(),
           fmt::format("{} calls itself, which cannot be lifted into an expression", name),
           "write its steps out, or find a closed form");
    return kBad;
  }
  calls_.push_back(call.getBeginLoc());
  const int result = this->call(*callee, args);
  calls_.pop_back();
  return result;
}

int BodyLift::math_call(const clang::CallExpr& call, const clang::FunctionDecl& callee,
                        const std::vector<int>& args) {
  const std::string name = callee.getNameAsString();
  const std::optional<MathFunction> known = find_math(name);
  if (!known || known->arguments != static_cast<int>(args.size())) {
    report(call.getBeginLoc(), fmt::format("{} is no function that can be lifted into an expression", name),
           name.starts_with("fma") && args.size() == 3 ? "write a * b + c"
                                                       : fmt::format("there are {}", math_names()));
    return kBad;
  }
  if (differentiable_ && known->is_step) {
    report(call.getBeginLoc(),
           fmt::format("{} is a step function: its derivative is 0, and nothing can be learned through it",
                       name));
    return kBad;
  }
  const std::optional<int> result = lift_math(e_, name, args);
  if (result) return *result;
  report(call.getBeginLoc(),
         fmt::format("{} can be lifted with a constant exponent, or a constant positive base", name),
         "write std::exp(y * std::log(x)) where x is positive");
  return kBad;
}

}  // namespace hydrac::specialize
