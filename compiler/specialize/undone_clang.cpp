#include "specialize/undone.h"

#include <llvm/ADT/FoldingSet.h>

#include <algorithm>
#include <optional>

#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// Factors as a product, whatever their order.
struct Product {
  std::int64_t number = 1;
  std::vector<llvm::FoldingSetNodeID> others;

  bool operator==(const Product& product) const {
    return number == product.number && others.size() == product.others.size() &&
           std::is_permutation(others.begin(), others.end(), product.others.begin());
  }
};

// A term of a sum that is `whole / divisor * scale`, or `whole % divisor * scale`.
struct Part {
  bool is_quotient;
  llvm::FoldingSetNodeID whole;
  Product divisor, scale;
};

class UndoneFinder : public Visitor {
 public:
  explicit UndoneFinder(Ast& ast) : ast_(ast), context_(ast.context()) {}

  std::vector<Problem> run() {
    for (Decl* decl : context_.getTranslationUnitDecl()->decls()) {
      if (is_of_kernels(decl->getLocation())) walk(decl);
    }
    return std::move(problems_);
  }

  void on(BinaryOperator* sum) {
    if (sum->getOpcode() != BO_Add) return;
    std::vector<const Expr*> terms;
    add_terms(sum, terms);
    std::vector<Part> parts;
    for (const Expr* term : terms) add_parts(term, parts);
    for (const Part& quotient : parts) {
      for (const Part& remainder : parts) {
        if (quotient.is_quotient && !remainder.is_quotient && quotient.whole == remainder.whole &&
            quotient.divisor == remainder.divisor &&
            quotient.scale == times(remainder.scale, remainder.divisor))
          note(sum->getBeginLoc(), "an index that is split and put together again");
      }
    }
  }

  void on(CXXStaticCastExpr* cast) {
    const QualType to = cast->getTypeAsWritten();
    const Expr* from = written_out(cast->getSubExprAsWritten());
    const auto* widening = dyn_cast<CastExpr>(from);
    if (to->isDependentType() || !widening || from->isTypeDependent()) return;
    const Expr* value = widening->getSubExprAsWritten();
    if (value->isTypeDependent() || !context_.hasSameUnqualifiedType(to, value->getType())) return;
    if (widens(value->getType(), widening->getType()))
      note(cast->getBeginLoc(), "a cast back to the type that was widened");
  }

 private:
  void see(Stmt* statement) override { look<BinaryOperator, CXXStaticCastExpr>(*this, statement); }

  bool is_of_kernels(SourceLocation location) const {
    const std::string path = location.isValid() ? ast_.path_of(location) : "";
    return path.starts_with("kernels/") &&
           !ast_.sources().isInSystemHeader(ast_.sources().getExpansionLoc(location));
  }

  // True if all numbers of one type are numbers of another one with more bits.
  bool widens(QualType from, QualType to) const {
    const bool is_whole = from->isIntegerType() && to->isIntegerType(),
               is_real = from->isRealFloatingType() && to->isRealFloatingType();
    return (is_whole || is_real) && context_.getTypeSize(to) > context_.getTypeSize(from);
  }

  // The initializer of a named constant of a function, with named constants in it replaced likewise.
  const Expr* written_out(const Expr* expression) const {
    for (;;) {
      expression = expression->IgnoreParens();
      if (const auto* load = dyn_cast<ImplicitCastExpr>(expression);
          load && (load->getCastKind() == CK_LValueToRValue || load->getCastKind() == CK_NoOp)) {
        expression = load->getSubExpr();
        continue;
      }
      const auto* reference = dyn_cast<DeclRefExpr>(expression);
      const auto* variable = reference ? dyn_cast<VarDecl>(reference->getDecl()) : nullptr;
      if (!variable || !variable->isLocalVarDecl() || !variable->getType().isConstQualified() ||
          !variable->hasInit())
        return expression;
      expression = variable->getInit();
    }
  }
  const Expr* bare(const Expr* expression) const {
    const Expr* value = written_out(expression->IgnoreParenImpCasts());
    return value->IgnoreParenImpCasts();
  }

  void add_terms(const Expr* expression, std::vector<const Expr*>& terms) const {
    expression = expression->IgnoreParenImpCasts();
    const auto* operation = dyn_cast<BinaryOperator>(expression);
    if (!operation || operation->getOpcode() != BO_Add) return terms.push_back(expression);
    add_terms(operation->getLHS(), terms);
    add_terms(operation->getRHS(), terms);
  }

  void add_factors(const Expr* expression, std::vector<const Expr*>& factors) const {
    expression = expression->IgnoreParenImpCasts();
    const auto* operation = dyn_cast<BinaryOperator>(bare(expression));
    if (!operation || operation->getOpcode() != BO_Mul || number_of(expression))
      return factors.push_back(expression);
    add_factors(operation->getLHS(), factors);
    add_factors(operation->getRHS(), factors);
  }

  void add_parts(const Expr* term, std::vector<Part>& parts) const {
    std::vector<const Expr*> factors;
    add_factors(term, factors);
    for (size_t i = 0; i < factors.size(); ++i) {
      const auto* operation = dyn_cast<BinaryOperator>(bare(factors[i]));
      if (!operation || (operation->getOpcode() != BO_Div && operation->getOpcode() != BO_Rem) ||
          !operation->getType()->isIntegerType())
        continue;
      std::vector<const Expr*> scale = factors, divisor;
      scale.erase(scale.begin() + static_cast<std::ptrdiff_t>(i));
      add_factors(operation->getRHS(), divisor);
      parts.push_back({operation->getOpcode() == BO_Div, identity(operation->getLHS()), product_of(divisor),
                       product_of(scale)});
    }
  }

  std::optional<std::int64_t> number_of(const Expr* expression) const {
    Expr::EvalResult result;
    if (expression->isValueDependent() || !expression->getType()->isIntegralOrEnumerationType() ||
        !expression->EvaluateAsInt(result, context_))
      return std::nullopt;
    return result.Val.getInt().getExtValue();
  }

  Product product_of(const std::vector<const Expr*>& factors) const {
    Product product;
    for (const Expr* factor : factors) {
      if (const auto number = number_of(factor))
        product.number *= *number;
      else
        product.others.push_back(identity(factor));
    }
    return product;
  }

  static Product times(Product a, const Product& b) {
    a.number *= b.number;
    a.others.insert(a.others.end(), b.others.begin(), b.others.end());
    return a;
  }

  llvm::FoldingSetNodeID identity(const Expr* expression) const {
    llvm::FoldingSetNodeID id;
    expression->IgnoreParenImpCasts()->Profile(id, context_, /*Canonical=*/true);
    return id;
  }

  void note(SourceLocation location, const char* message) {
    problems_.push_back(ast_.problem_at(location, message));
  }

  Ast& ast_;
  ASTContext& context_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> undone_parts(Ast& ast) {
  return UndoneFinder(ast).run();
}

}  // namespace hydrac::specialize
