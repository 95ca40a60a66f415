// Finding the function that is wanted, and what can be said about it as a whole.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "diag/suggest.h"
#include "functions/derivative.h"
#include "specialize/lift/lift_body.h"
#include "specialize/lift/lift_guard.h"
#include "specialize/lift/lift_math.h"

namespace hydrac::specialize {

using clang::dyn_cast;
using functions::Function;
using functions::Number;

namespace {

// The file's name for Clang, whatever its path.
constexpr const char* kFile = "function.cpp";

// The functions of the file, in order: defined or not, in namespaces too.
void collect(const clang::DeclContext& context, Ast& ast, std::vector<const clang::FunctionDecl*>& found) {
  for (const clang::Decl* declaration : context.decls()) {
    if (const auto* inner = dyn_cast<clang::NamespaceDecl>(declaration)) {
      collect(*inner, ast, found);
    } else if (const auto* linkage = dyn_cast<clang::LinkageSpecDecl>(declaration)) {
      collect(*linkage, ast, found);
    } else if (const auto* function = dyn_cast<clang::FunctionDecl>(declaration);
               function != nullptr && ast.path_of(function->getLocation()) == kFile) {
      found.push_back(function);
    }
  }
}

size_t parameters_of(const std::string& signature) {
  return static_cast<size_t>(std::ranges::count(signature, ',')) + 1;
}

// Type of the function's numbers; nothing if it is none of those wanted.
std::optional<Number> number_of(const clang::FunctionDecl& function, const WantedFunction& wanted) {
  const auto is = [](clang::QualType type, clang::BuiltinType::Kind kind) {
    const auto* builtin = type.getCanonicalType()->getAs<clang::BuiltinType>();
    return builtin != nullptr && builtin->getKind() == kind;
  };
  const bool fits = std::ranges::any_of(wanted.signatures, [&](const std::string& signature) {
    return parameters_of(signature) == function.getNumParams();
  });
  if (!fits || function.isVariadic()) return std::nullopt;
  const auto all = [&](clang::BuiltinType::Kind kind) {
    return is(function.getReturnType(), kind) &&
           std::ranges::all_of(function.parameters(),
                               [&](const clang::ParmVarDecl* p) { return is(p->getType(), kind); });
  };
  if (all(clang::BuiltinType::Float)) return Number::f32;
  if (wanted.may_be_double && all(clang::BuiltinType::Double)) return Number::f64;
  return std::nullopt;
}

bool is_missing(const std::string& message) {
  return message.starts_with("use of undeclared identifier") || message.starts_with("no member named");
}

std::vector<FunctionProblem> parse_problems(const Ast& ast) {
  std::vector<FunctionProblem> problems;
  for (const Problem& problem : ast.problems()) {
    const bool here = problem.file == kFile && problem.line > 0;
    FunctionProblem ours{here ? problem.line : 1, here ? problem.column : 1, problem.message, ""};
    const std::string& message = ours.message;
    const size_t quote = message.find('\'');
    const std::string name = quote == std::string::npos
                                 ? ""
                                 : message.substr(quote + 1, message.find('\'', quote + 1) - quote - 1);
    if (message.find("file not found") != std::string::npos)
      ours.suggestion = "a function's file can include <cmath> and <algorithm>, and no other file";
    else if (is_missing(message) && (name == "max" || name == "min"))
      ours.suggestion = "add #include <algorithm>";
    else if (is_missing(message) && (name == "std" || is_in_cmath(name)))
      ours.suggestion = "add #include <cmath>";
    problems.push_back(std::move(ours));
  }
  return problems;
}

FunctionProblem not_found(const std::string& path, const std::string& name,
                          const std::vector<const clang::FunctionDecl*>& all) {
  std::vector<std::string> names;
  for (const clang::FunctionDecl* function : all) {
    const std::string known = function->getNameAsString();
    if (std::ranges::find(names, known) == names.end()) names.push_back(known);
  }
  const std::string meant = diag::nearest(name, names);
  return {0, 0, fmt::format("there is no function {} in {}", name, path),
          !meant.empty()  ? fmt::format("did you mean {}?", meant)
          : names.empty() ? "the file has no function"
                          : fmt::format("the file has {}", fmt::join(names, ", "))};
}

// An expression that Clang and we walk by recursion must not be too deep for it.
bool is_too_deep(const clang::Stmt* statement) {
  constexpr size_t kDeepest = 1000;
  std::vector<std::pair<const clang::Stmt*, size_t>> left = {{statement, 0}};
  while (!left.empty()) {
    const auto [at, depth] = left.back();
    left.pop_back();
    if (at == nullptr) continue;
    if (depth > kDeepest) return true;
    for (const clang::Stmt* child : at->children()) left.emplace_back(child, depth + 1);
  }
  return false;
}

// Errors and warnings about the derivatives by the parameters that are differentiated.
void judge(const clang::FunctionDecl& declaration, const Function& function, const WantedFunction& wanted,
           BodyLift& errors, BodyLift& warnings) {
  for (int p = 0; p < std::min(wanted.differentiated, static_cast<int>(function.parameters.size())); ++p) {
    const clang::ParmVarDecl& parameter = *declaration.getParamDecl(static_cast<unsigned>(p));
    const std::string name = parameter.getNameAsString();
    if (is_zero(derivative(function, p))) {
      errors.report(
          parameter.getLocation(),
          fmt::format("the derivative of {} by {} is 0 everywhere: nothing can be learned through it",
                      function.name, name.empty() ? "this parameter" : name));
    } else if (const auto at = where_derivative_overflows(function, p)) {
      warnings.report(
          declaration.getLocation(),
          fmt::format("the derivative of {} by {} is not finite at {}, where its value is: it "
                      "would make all gradients NaN",
                      function.name, name, *at),
          "1 / (1 + exp(-x)), tanh and erf are differentiated without overflow; or choose another "
          "formula far out with ? :");
    }
  }
}

LiftedFunction lift(Ast& ast, const clang::FunctionDecl& declaration, Number number,
                    const WantedFunction& wanted) {
  BodyLift lift(ast, kFile, number, wanted.differentiated > 0), warnings(ast, kFile, number, false);
  std::vector<int> arguments;
  std::vector<std::string> names;
  for (const clang::ParmVarDecl* parameter : declaration.parameters()) {
    arguments.push_back(lift.expressions().argument(static_cast<int>(arguments.size())));
    names.push_back(parameter->getNameAsString());
  }
  LiftedFunction lifted;
  const int result = lift.call(declaration, arguments);
  if (result != BodyLift::kBad) {
    Function function = lift.expressions().take(result, declaration.getNameAsString(), std::move(names));
    judge(declaration, function, wanted, lift, warnings);
    lifted.function = std::move(function);
  }
  lifted.errors = lift.take_problems();
  lifted.warnings = warnings.take_problems();
  if (!lifted.errors.empty()) lifted.function.reset();
  return lifted;
}

}  // namespace

LiftedFunction lift_function(const std::string& path, const std::string& text, const std::string& name,
                             const WantedFunction& wanted) {
  if (const auto refused = refused_text(text)) return {{}, {*refused}, {}};
  // A file may be shared with code for CUDA.
  const ParseRequest request{.source = {kFile, text},
                             .macros = {{"__device__", ""}, {"__host__", ""}, {"__forceinline__", "inline"}}};
  const std::unique_ptr<Ast> ast = Ast::parse(request);
  if (!ast->problems().empty()) return {{}, parse_problems(*ast), {}};

  std::vector<const clang::FunctionDecl*> all, named;
  collect(*ast->context().getTranslationUnitDecl(), *ast, all);
  for (const clang::FunctionDecl* function : all) {
    if (function->getNameAsString() == name &&
        (function->isThisDeclarationADefinition() || !function->hasBody()))
      named.push_back(function);
  }
  if (named.empty()) return {{}, {not_found(path, name, all)}, {}};
  BodyLift place(*ast, kFile, Number::f32, false);
  const clang::FunctionDecl& function = *named.back();
  const std::optional<Number> number = number_of(function, wanted);
  if (named.size() > 1) {
    place.report(function.getLocation(), fmt::format("there is more than one function {}", name),
                 "give them names of their own");
  } else if (!number) {
    place.report(function.getLocation(),
                 fmt::format("{} is {}, and what is wanted is {}", name, function.getType().getAsString(),
                             fmt::join(wanted.signatures, " or ")),
                 wanted.may_be_double ? "all of it may be double instead of float" : "");
  } else if (!function.hasBody()) {
    place.report(function.getLocation(),
                 fmt::format("{} is declared, and its definition is not in this file", name));
  } else {
    for (const clang::FunctionDecl* each : all) {
      if (each->hasBody() && is_too_deep(each->getBody()))
        place.report(each->getLocation(), fmt::format("{} is nested too deeply", each->getNameAsString()));
    }
  }
  std::vector<FunctionProblem> problems = place.take_problems();
  if (!problems.empty()) return {{}, std::move(problems), {}};
  return lift(*ast, function, *number, wanted);
}

}  // namespace hydrac::specialize
