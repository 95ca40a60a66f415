// The statements of a C++ function as one expression. Includes Clang's headers: only *_clang.cpp files may
// include it.
#pragma once
#include <clang/AST/Decl.h>
#include <clang/AST/Expr.h>
#include <clang/AST/Stmt.h>

#include <map>
#include <set>

#include "functions/expressions.h"
#include "specialize/ast.h"
#include "specialize/lift/lift_function.h"

namespace hydrac::specialize {

// Interprets a function with expressions as the values of its variables. Everything that cannot be lifted is
// reported, and the walk goes on.
class BodyLift {
 public:
  // `differentiable`: step functions are refused.
  BodyLift(Ast& ast, std::string path, functions::Number number, bool differentiable)
      : ast_(ast), path_(std::move(path)), differentiable_(differentiable), e_(number), number_(number) {}

  // The value of a function with a body at these arguments; kBad where something in it was reported.
  int call(const clang::FunctionDecl& function, const std::vector<int>& arguments);

  functions::Expressions& expressions() { return e_; }
  // In the order of the file, no two equal.
  std::vector<FunctionProblem> take_problems();
  void report(clang::SourceLocation where, std::string message, std::string suggestion = "");

  // True for the type of all numbers.
  bool is_number(clang::QualType type) const;

  static constexpr int kBad = -1;

 private:
  using Values = std::map<const clang::ValueDecl*, int>;
  // The remaining work after a statement: the rest of its block, then the code after the block.
  struct Rest {
    llvm::ArrayRef<const clang::Stmt*> statements;
    const Rest* after;
  };

  // statements: lift_statements_clang.cpp
  int run(Rest rest, Values values);
  int fork(const clang::IfStmt& statement, const Rest& rest, const Values& values);
  void execute(const clang::Stmt& statement, Values& values);
  void declare(const clang::DeclStmt& statement, Values& values);
  void choose(const clang::IfStmt& statement, Values& values);
  void assign(const clang::Expr& expression, Values& values);
  bool is_plain(const clang::IfStmt& statement);
  // Refuses to walk on where a function has too many ways through it.
  bool is_exhausted();

  // expressions: lift_expressions_clang.cpp
  int value(const clang::Expr* expression, const Values& values);
  int cast(const clang::CastExpr& cast, const Values& values);
  int whole(const clang::Expr& expression, const Values& values);
  int variable(const clang::DeclRefExpr& reference, const Values& values);
  int unary(const clang::UnaryOperator& expression, const Values& values);
  int binary(const clang::BinaryOperator& expression, const Values& values);
  int combine(clang::BinaryOperatorKind kind, int a, int b);
  int call_of(const clang::CallExpr& call, const Values& values);
  int math_call(const clang::CallExpr& call, const clang::FunctionDecl& callee, const std::vector<int>& args);
  int choice(int condition, int if_true, int if_false);
  std::optional<int> constant(const clang::Expr& expression);
  bool has_type(const clang::Expr& expression);

  // messages: lift_reports_clang.cpp
  void refuse(const clang::Expr& expression);
  void report_other_number(const clang::Stmt& expression);
  bool report_sources_of_other_number(const clang::Stmt& statement);
  bool report_other_source(const clang::Expr& expression);
  bool is_in_the_file(clang::SourceLocation where) const;
  std::string written(const clang::Stmt& statement) const;
  std::string number_name() const { return number_ == functions::Number::f32 ? "float" : "double"; }

  Ast& ast_;
  const std::string path_;
  const bool differentiable_;
  functions::Expressions e_;
  const functions::Number number_;
  std::vector<FunctionProblem> problems_;
  std::vector<const clang::FunctionDecl*> stack_;  // being inlined
  std::vector<clang::SourceLocation> calls_;       // of them
  int steps_ = 0;
};

}  // namespace hydrac::specialize
