// The places and messages of what cannot be an expression.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Lex/Lexer.h>
#include <fmt/format.h>

#include <algorithm>

#include "specialize/lift/lift_body.h"
#include "specialize/lift/lift_math.h"

namespace hydrac::specialize {

using clang::dyn_cast;
using clang::isa;
using functions::Number;

void BodyLift::report(clang::SourceLocation where, std::string message, std::string suggestion) {
  // In a header it is the call that leads there which is at fault.
  if (!is_in_the_file(where)) {
    const auto call = std::find_if(calls_.rbegin(), calls_.rend(),
                                   [&](clang::SourceLocation at) { return is_in_the_file(at); });
    if (call != calls_.rend()) where = *call;
  }
  const clang::SourceManager& sources = ast_.sources();
  const clang::SourceLocation at = sources.getExpansionLoc(where);
  FunctionProblem problem{static_cast<int>(sources.getExpansionLineNumber(at)),
                          static_cast<int>(sources.getExpansionColumnNumber(at)), std::move(message),
                          std::move(suggestion)};
  if (std::ranges::find(problems_, problem) == problems_.end()) problems_.push_back(std::move(problem));
}

std::vector<FunctionProblem> BodyLift::take_problems() {
  std::ranges::stable_sort(problems_, {},
                           [](const FunctionProblem& p) { return std::pair(p.line, p.column); });
  return std::move(problems_);
}

bool BodyLift::is_in_the_file(clang::SourceLocation where) const {
  return where.isValid() && ast_.path_of(where) == path_;
}

std::string BodyLift::written(const clang::Stmt& statement) const {
  const auto range = clang::CharSourceRange::getTokenRange(statement.getSourceRange());
  return clang::Lexer::getSourceText(range, ast_.sources(), ast_.language()).str();
}

// Reports the literals, calls and variables that give an expression another number type; false if there are
// none.
bool BodyLift::report_sources_of_other_number(const clang::Stmt& statement) {
  if (const auto* expression = dyn_cast<clang::Expr>(&statement);
      expression && expression->getType()->isRealFloatingType() && !is_number(expression->getType()) &&
      report_other_source(*expression))
    return true;
  bool any = false;
  for (const clang::Stmt* child : statement.children()) {
    if (child != nullptr) any |= report_sources_of_other_number(*child);
  }
  return any;
}

bool BodyLift::report_other_source(const clang::Expr& expression) {
  const auto is_other = [&](const std::string& what, const std::string& suggestion) {
    report(expression.getBeginLoc(),
           fmt::format("{} is {}, and the function computes in {}", what,
                       expression.getType().getUnqualifiedType().getAsString(), number_name()),
           suggestion);
    return true;
  };
  const std::string text = written(expression);
  if (isa<clang::FloatingLiteral>(expression)) {
    const std::string bare = text.substr(0, text.find_last_not_of("fFlL") + 1);
    return is_other(text, fmt::format("write {}{}", bare, number_ == Number::f32 ? "f" : ""));
  }
  if (isa<clang::DeclRefExpr>(expression)) return is_other(text, "make it " + number_name());
  if (isa<clang::ExplicitCastExpr>(expression)) return is_other("this", "remove the conversion");
  const auto* call = dyn_cast<clang::CallExpr>(&expression);
  if (call == nullptr || call->getDirectCallee() == nullptr) return false;
  const std::string name = call->getDirectCallee()->getNameAsString();
  const std::optional<MathFunction> known = find_math(name);
  return is_other("the result of " + name, known ? "write std::" + known->name : "");
}

void BodyLift::report_other_number(const clang::Stmt& expression) {
  if (report_sources_of_other_number(expression)) return;
  report(expression.getBeginLoc(),
         fmt::format("this is computed in another type, and the function computes in {}", number_name()));
}

void BodyLift::refuse(const clang::Expr& expression) {
  const auto say = [&](const std::string& what, const char* suggestion = "") {
    report(expression.getBeginLoc(), what + " cannot be lifted into an expression", suggestion);
  };
  if (isa<clang::LambdaExpr>(expression)) return say("a lambda", "make it a function of this file");
  if (isa<clang::ArraySubscriptExpr>(expression)) return say("an array");
  if (isa<clang::MemberExpr>(expression)) return say("a member of a class");
  if (expression.getType()->isAnyPointerType()) return say("a pointer");
  if (isa<clang::CXXThrowExpr>(expression)) return say("an exception");
  if (isa<clang::CXXOperatorCallExpr, clang::CXXMemberCallExpr>(expression))
    return say("a call of a class's function", "make it a function of this file");
  say(written(expression));
}

}  // namespace hydrac::specialize
