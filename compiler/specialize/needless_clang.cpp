#include "specialize/needless.h"

#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

class NeedlessFinder : public Visitor {
 public:
  explicit NeedlessFinder(Ast& ast) : ast_(ast), context_(ast.context()) {}

  std::vector<Problem> run() {
    for (Decl* decl : context_.getTranslationUnitDecl()->decls()) {
      if (is_written(decl->getLocation())) walk(decl);
    }
    return std::move(problems_);
  }

  // for (int i = 0; i < kChunks; ++i) where kChunks is 1. Only for constants of a kernel's file, which divide
  // work among threads. Numbers of dims.h and bare ones belong to the model, and a loop over one sequence or
  // one layer is meaningful.
  void on(ForStmt* loop) {
    const auto* declared = dyn_cast_or_null<DeclStmt>(loop->getInit());
    const auto* variable =
        declared && declared->isSingleDecl() ? dyn_cast<VarDecl>(declared->getSingleDecl()) : nullptr;
    const auto* condition = dyn_cast_or_null<BinaryOperator>(loop->getCond());
    if (!variable || !condition || condition->getOpcode() != BO_LT || !is_of_device(loop->getForLoc()))
      return;
    const auto first = value_of(variable->getInit()), end = value_of(condition->getRHS());
    const auto step = step_of(loop->getInc());
    if (!first || !end || !step || *step <= 0 || !is_of_kernel(condition->getRHS())) return;
    if (*first < *end && *first + *step >= *end) note(loop->getForLoc(), "a loop that runs once");
  }

  void on(CXXStaticCastExpr* cast) {
    const QualType to = cast->getTypeAsWritten(), from = cast->getSubExprAsWritten()->getType();
    if (!is_of_device(cast->getBeginLoc())) return;
    if (to->isDependentType() || from->isDependentType() || to->isReferenceType() || !to->isArithmeticType())
      return;
    if (context_.hasSameUnqualifiedType(to, from))
      note(cast->getBeginLoc(), "a cast to the type that is there");
  }

 private:
  void see(Stmt* statement) override { look<ForStmt, CXXStaticCastExpr>(*this, statement); }

  bool is_written(SourceLocation location) const {
    return location.isValid() && !ast_.sources().isInSystemHeader(ast_.sources().getExpansionLoc(location)) &&
           !ast_.sources().isWrittenInBuiltinFile(location) &&
           !ast_.sources().isWrittenInCommandLineFile(location);
  }

  std::optional<std::int64_t> value_of(const Expr* expression) const {
    Expr::EvalResult result;
    if (!expression || expression->isValueDependent() ||
        !expression->getType()->isIntegralOrEnumerationType() || !expression->EvaluateAsInt(result, context_))
      return std::nullopt;
    return result.Val.getInt().getExtValue();
  }

  std::optional<std::int64_t> step_of(const Expr* increment) const {
    if (const auto* unary = dyn_cast_or_null<UnaryOperator>(increment))
      return unary->isIncrementOp() ? std::optional<std::int64_t>(1) : std::nullopt;
    const auto* assignment = dyn_cast_or_null<CompoundAssignOperator>(increment);
    return assignment && assignment->getOpcode() == BO_AddAssign ? value_of(assignment->getRHS())
                                                                 : std::nullopt;
  }

  bool is_of_device(SourceLocation location) const {
    const std::string path = ast_.path_of(location);
    return path.ends_with(".cu") || path.ends_with(".cuh");
  }

  // True if it is made of numbers and names, and all these are of the kernels' files.
  bool is_of_kernel(const Stmt* expression) const {
    bool has_name = false;
    return names_kernels_only(expression, has_name) && has_name;
  }
  bool names_kernels_only(const Stmt* expression, bool& has_name) const {
    if (const auto* reference = dyn_cast<DeclRefExpr>(expression)) {
      const auto* variable = dyn_cast<VarDecl>(reference->getDecl());
      has_name = true;
      return variable && is_of_device(variable->getLocation()) &&
             (!variable->hasInit() || names_kernels_only(variable->getInit(), has_name));
    }
    return llvm::all_of(expression->children(),
                        [&](const Stmt* child) { return !child || names_kernels_only(child, has_name); });
  }

  void note(SourceLocation location, const char* message) {
    problems_.push_back(ast_.problem_at(location, message));
  }

  Ast& ast_;
  ASTContext& context_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> needless_parts(Ast& ast) {
  return NeedlessFinder(ast).run();
}

}  // namespace hydrac::specialize
