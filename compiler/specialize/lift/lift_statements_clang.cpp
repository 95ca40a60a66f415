// Statements: variables are the expressions that they currently hold, and a branch that may return is walked
// together with all statements after it.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <fmt/format.h>

#include <algorithm>

#include "specialize/lift/lift_body.h"

namespace hydrac::specialize {

using clang::dyn_cast;
using clang::dyn_cast_or_null;
using clang::isa;

namespace {

constexpr int kMostSteps = 20000;
constexpr size_t kMostNodes = 2000;

bool contains_return(const clang::Stmt* statement) {
  if (statement == nullptr) return false;
  if (isa<clang::ReturnStmt>(statement)) return true;
  return std::any_of(statement->child_begin(), statement->child_end(), contains_return);
}

// Name of a statement in messages, and what to write instead.
std::pair<std::string, std::string> described(const clang::Stmt& statement) {
  if (isa<clang::ForStmt, clang::WhileStmt, clang::DoStmt, clang::CXXForRangeStmt>(statement))
    return {"a loop cannot be lifted into an expression", "write its steps out, or find a closed form"};
  if (isa<clang::SwitchStmt>(statement))
    return {"a switch cannot be lifted into an expression", "write it with if and else"};
  if (isa<clang::GotoStmt, clang::LabelStmt, clang::IndirectGotoStmt>(statement))
    return {"a goto cannot be lifted into an expression", "write it with if and else"};
  if (isa<clang::CXXTryStmt>(statement)) return {"exceptions cannot be lifted into an expression", ""};
  if (isa<clang::AsmStmt>(statement)) return {"assembly cannot be lifted into an expression", ""};
  return {"this statement cannot be lifted into an expression",
          "a function can have variables, assignments, if, else and return"};
}

}  // namespace

int BodyLift::call(const clang::FunctionDecl& function, const std::vector<int>& arguments) {
  const clang::FunctionDecl* definition = nullptr;
  function.hasBody(definition);
  Values values;
  for (unsigned i = 0; i < definition->getNumParams(); ++i)
    values[definition->getParamDecl(i)] = arguments[i];
  stack_.push_back(definition->getCanonicalDecl());
  const clang::Stmt* body = definition->getBody();
  const int result = run({body, nullptr}, std::move(values));
  stack_.pop_back();
  return result;
}

bool BodyLift::is_exhausted() {
  ++steps_;
  if (steps_ <= kMostSteps && e_.size() <= kMostNodes) return false;
  report(stack_.front()->getLocation(), "the function is too large to be one expression");
  return true;
}

int BodyLift::run(Rest rest, Values values) {
  for (;;) {
    if (rest.statements.empty()) {
      if (rest.after == nullptr) break;
      rest = *rest.after;
      continue;
    }
    const clang::Stmt& statement = *rest.statements.front();
    rest.statements = rest.statements.drop_front();
    if (is_exhausted()) return kBad;
    if (const auto* block = dyn_cast<clang::CompoundStmt>(&statement))
      return run({{block->body_begin(), block->size()}, &rest}, std::move(values));
    if (const auto* result = dyn_cast<clang::ReturnStmt>(&statement))
      return value(result->getRetValue(), values);
    const auto* branch = dyn_cast<clang::IfStmt>(&statement);
    if (branch != nullptr && contains_return(branch)) return fork(*branch, rest, values);
    execute(statement, values);
  }
  report(stack_.back()->getDefinition()->getBody()->getEndLoc(),
         fmt::format("the end of {} is reached without a return", stack_.back()->getNameAsString()),
         "return a value on every way through it");
  return kBad;
}

bool BodyLift::is_plain(const clang::IfStmt& statement) {
  if (!statement.hasInitStorage() && !statement.hasVarStorage() && !statement.isConsteval()) return true;
  report(statement.getBeginLoc(), "an if that declares a variable cannot be lifted into an expression",
         "declare it before the if");
  return false;
}

int BodyLift::fork(const clang::IfStmt& statement, const Rest& rest, const Values& values) {
  if (!is_plain(statement)) return kBad;
  const int condition = value(statement.getCond(), values);
  const clang::Stmt *then = statement.getThen(), *otherwise = statement.getElse();
  const Rest if_true{then, &rest}, if_false = otherwise ? Rest{otherwise, &rest} : rest;
  if (condition != kBad && e_.is_constant(condition))
    return run(e_.node(condition).number != 0 ? if_true : if_false, values);
  const int a = run(if_true, values);
  const int b = run(if_false, values);
  return choice(condition, a, b);
}

void BodyLift::execute(const clang::Stmt& statement, Values& values) {
  if (is_exhausted()) return;
  if (const auto* block = dyn_cast<clang::CompoundStmt>(&statement)) {
    for (const clang::Stmt* inner : block->body()) execute(*inner, values);
  } else if (const auto* declaration = dyn_cast<clang::DeclStmt>(&statement)) {
    declare(*declaration, values);
  } else if (const auto* branch = dyn_cast<clang::IfStmt>(&statement)) {
    choose(*branch, values);
  } else if (const auto* expression = dyn_cast<clang::Expr>(&statement)) {
    if (const auto* cleanups = dyn_cast<clang::FullExpr>(expression)) expression = cleanups->getSubExpr();
    assign(*expression->IgnoreParens(), values);
  } else if (!isa<clang::NullStmt>(statement)) {
    auto [message, suggestion] = described(statement);
    report(statement.getBeginLoc(), std::move(message), std::move(suggestion));
  }
}

void BodyLift::declare(const clang::DeclStmt& statement, Values& values) {
  for (const clang::Decl* declaration : statement.decls()) {
    const auto* variable = dyn_cast<clang::VarDecl>(declaration);
    if (variable == nullptr) continue;  // types, using, static_assert
    const clang::QualType type = variable->getType();
    const std::string name = variable->getNameAsString();
    const bool is_constant = type.isConstQualified() && variable->getInit() != nullptr;
    if (variable->isStaticLocal() && !is_constant) {
      report(variable->getLocation(), fmt::format("{} is static: it outlives the call", name),
             "a function's result may depend on its parameters only");
      values[variable] = kBad;
    } else if (is_number(type) || type->isBooleanType()) {
      if (variable->getInit() != nullptr) values[variable] = value(variable->getInit(), values);
    } else if (is_constant && type->isArithmeticType()) {
      // Each use of it is a constant, or refused.
    } else {
      const auto* record = type->getAsCXXRecordDecl();
      report(variable->getLocation(),
             fmt::format("{} is {}, and the function computes in {}", name,
                         record && record->isLambda() ? "a lambda" : "of type " + type.getAsString(),
                         number_name()),
             type.getNonReferenceType()->isArithmeticType() ? fmt::format("make it {}", number_name()) : "");
      values[variable] = kBad;
    }
  }
}

// Both branches, none of which returns; then each variable is one or the other.
void BodyLift::choose(const clang::IfStmt& statement, Values& values) {
  if (!is_plain(statement)) return;
  const int condition = value(statement.getCond(), values);
  Values if_true = values, if_false = values;
  execute(*statement.getThen(), if_true);
  if (statement.getElse() != nullptr) execute(*statement.getElse(), if_false);
  if (condition != kBad && e_.is_constant(condition)) {
    values = e_.node(condition).number != 0 ? if_true : if_false;
    return;
  }
  values.clear();
  for (const auto& [variable, a] : if_true) {
    // A variable that only one branch sets has no certain value afterwards.
    if (const auto b = if_false.find(variable); b != if_false.end())
      values[variable] = choice(condition, a, b->second);
  }
}

void BodyLift::assign(const clang::Expr& expression, Values& values) {
  const clang::Expr* target = nullptr;
  int result = kBad;
  const auto* binary = dyn_cast<clang::BinaryOperator>(&expression);
  const auto* step = dyn_cast<clang::UnaryOperator>(&expression);
  if (binary != nullptr && binary->isAssignmentOp()) {
    target = binary->getLHS();
    result = value(binary->getRHS(), values);
  } else if (step != nullptr && step->isIncrementDecrementOp()) {
    target = step->getSubExpr();
    result = e_.constant(1);
  } else {
    report(expression.getBeginLoc(), "this statement has no effect that can be lifted into an expression",
           "remove it");
    return;
  }
  const auto* reference = dyn_cast<clang::DeclRefExpr>(target->IgnoreParens());
  const auto* variable = reference ? dyn_cast<clang::VarDecl>(reference->getDecl()) : nullptr;
  if (variable == nullptr || (!variable->hasLocalStorage() && !values.contains(variable))) {
    report(target->getBeginLoc(),
           fmt::format("only the function's own variables can be assigned to, and {} is none",
                       written(*target)));
    return;
  }
  if (const auto* compound = dyn_cast<clang::CompoundAssignOperator>(&expression)) {
    if (!is_number(compound->getComputationResultType())) {
      report_other_number(*compound);
      result = kBad;
    } else {
      const auto kind = clang::BinaryOperator::getOpForCompoundAssignment(compound->getOpcode());
      const int old = this->variable(*reference, values);
      result = old == kBad || result == kBad ? kBad : combine(kind, old, result);
      if (result == kBad && old != kBad) report(compound->getOperatorLoc(), "this operator is for integers");
    }
  } else if (step != nullptr) {
    const int old = this->variable(*reference, values);
    if (old != kBad) {
      result = e_.apply(step->isIncrementOp() ? functions::Op::add : functions::Op::sub, old, result);
    } else {
      result = kBad;
    }
  }
  values[variable] = result;
}

}  // namespace hydrac::specialize
