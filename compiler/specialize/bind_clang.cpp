#include "specialize/bind.h"

#include "specialize/bind_conditions.h"
#include "specialize/bind_lists.h"
#include "specialize/bind_text.h"
#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

class Binder : public Visitor {
 public:
  Binder(const Places& places, const std::string& scope, const Bindings& bindings, Proposals& proposals)
      : places_(places),
        context_(places.ast().context()),
        scope_(scope),
        proposals_(proposals),
        text_(places, bindings),
        conditions_(places),
        lists_(places, text_, proposals) {}

  void run(Decl* decl) {
    const Decl* pattern = pattern_of(decl);
    if (auto* function = dyn_cast<FunctionDecl>(decl)) {
      lists_.thin_function(function, pattern);
      const auto* body = isa<FunctionTemplateDecl>(pattern)
                             ? cast<FunctionTemplateDecl>(pattern)->getTemplatedDecl()
                             : cast<FunctionDecl>(pattern);
      if (const Stmt* text = body->getBody()) conditions_.enter(text);
      if (isa<CXXMethodDecl>(function)) text_.visit(cast<CXXMethodDecl>(function)->getParent());
      text_.enter(dyn_cast<FunctionTemplateDecl>(pattern));
      walk(function);
      text_.visit(nullptr);
      text_.enter(nullptr);
    } else if (auto* record = dyn_cast<CXXRecordDecl>(decl)) {
      if (auto* described = dyn_cast<ClassTemplateDecl>(pattern)) {
        for (const auto* declared : described->redecls())
          lists_.thin(cast<ClassTemplateDecl>(declared)->getTemplateParameters());
      }
      text_.visit(record);
      for (const CXXBaseSpecifier& base : record->bases()) walk(base.getTypeSourceInfo()->getTypeLoc());
      for (Decl* member : record->decls()) {
        if (isa<FieldDecl, StaticAssertDecl, TypedefNameDecl>(member)) walk(member);
      }
      text_.visit(nullptr);
    } else {
      // A variable template may have specializations: its uses become values, or it stays as it is.
      if (auto* variable = dyn_cast<VarDecl>(decl)) {
        text_.visit(dyn_cast<CXXRecordDecl>(variable->getDeclContext()));
      }
      if (auto* specialization = dyn_cast<VarTemplateSpecializationDecl>(decl))
        walk(specialization->getInit());
      if (auto* alias = dyn_cast<TypeAliasTemplateDecl>(decl))
        lists_.thin(written(alias)->getTemplateParameters());
      walk(decl);
      text_.visit(nullptr);
    }
  }

  // ---- constants

  void on(SubstNonTypeTemplateParmExpr* expression) {
    propose_constant(expression, expression->getNameLoc(), expression->getNameLoc());
  }
  void on(DeclRefExpr* expression) {
    if (isa<TemplateParamObjectDecl>(expression->getDecl())) return;  // what stands for a parameter
    propose_constant(expression, expression->getBeginLoc(), expression->getEndLoc());
    if (auto* function = dyn_cast<FunctionDecl>(expression->getDecl())) {
      if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate())
        drop_arguments(written(primary)->getTemplateParameters(), expression);
    }
    if (is_named(expression->getQualifier()) || lists_.becomes_plain(expression->getDecl()))
      drop_keyword(expression->getTemplateKeywordLoc(), witness_of(expression->getQualifier()));
    rename_namespace(expression->getQualifierLoc());
  }
  void on(MemberExpr* expression) {
    propose_constant(expression, expression->getBeginLoc(), expression->getEndLoc());
    if (auto* function = dyn_cast<FunctionDecl>(expression->getMemberDecl())) {
      if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate())
        drop_arguments(written(primary)->getTemplateParameters(), expression);
    }
    if (!text_.stays_dependent(expression->getBase()->getType()) ||
        lists_.becomes_plain(expression->getMemberDecl()))
      drop_keyword(expression->getTemplateKeywordLoc(), "");
  }
  void on(CXXMemberCallExpr* expression) {
    propose_constant(expression, expression->getBeginLoc(), expression->getEndLoc());
  }

  // ---- conditions

  void on(IfStmt* statement) {
    const auto place = places_.of(statement->getIfLoc());
    if (!place || statement->hasInitStorage() || statement->hasVarStorage()) return;
    const std::optional<bool> value = conditions_.value_of(statement->getCond());
    if (statement->isConstexpr() && statement->getCond()->isValueDependent()) return;
    proposals_.propose(*place, 'i', value ? conditions_.prune(statement, *value) : std::vector<Edit>{});
  }
  void on(BinaryOperator* operation) {
    if (operation->isLogicalOp()) {
      // Instances that disagree about the whole may agree about a side.
      if (const auto place = places_.of(operation->getOperatorLoc())) {
        if (const auto edits = conditions_.fold(operation)) proposals_.propose(*place, '&', *edits);
        if (const auto edits = conditions_.without_left(operation)) proposals_.propose(*place, 'l', *edits);
        if (const auto edits = conditions_.without_right(operation)) proposals_.propose(*place, 'r', *edits);
      }
    } else if (const auto place = places_.of(operation->getOperatorLoc());
               place && !operation->isAssignmentOp()) {
      std::vector<Edit> edits;
      if (text_.folds(operation))
        edits.push_back(replaced(operation->getSourceRange(), *text_.value_of(operation)));
      proposals_.propose(*place, 'a', edits);
    }
  }
  void on(ConditionalOperator* operation) {
    const auto place = places_.of(operation->getQuestionLoc());
    if (!place) return;
    if (const auto edits = conditions_.choose(operation)) proposals_.propose(*place, '?', *edits);
  }
  void on(ParenExpr* expression) {
    const auto open = places_.of(expression->getLParen()), close = places_.of(expression->getRParen());
    if (!open || !close) return;
    const std::vector<Edit> without = {{open->offset, open->offset + 1, ""},
                                       {close->offset, close->offset + 1, ""}};
    bool is_bare = false;
    std::string witness;  // around a choice they go where all instances keep the same side
    if (const auto* choice = dyn_cast<ConditionalOperator>(expression->getSubExpr())) {
      if (choice->getCond()->isValueDependent()) return;
      const auto side = conditions_.value_of(choice->getCond());
      is_bare = side && conditions_.keeps_one_word(choice);
      witness = !side ? "" : *side ? "true" : "false";
    } else if (const auto* operation = dyn_cast<BinaryOperator>(expression->getSubExpr())) {
      if (operation->isValueDependent()) return;
      is_bare = operation->isLogicalOp() ? conditions_.loses_parentheses(expression, operation)
                                         : text_.folds(operation);
    } else {
      return;
    }
    proposals_.propose(*open, Proposals::kParentheses, is_bare ? without : std::vector<Edit>{}, witness);
  }
  // To the type that is there, for these arguments.
  void on(CXXStaticCastExpr* cast) {
    const auto place = places_.of(cast->getBeginLoc());
    if (!place || cast->getType()->isDependentType() || of_entry(*place)) return;
    const Expr* inner = cast->getSubExprAsWritten();
    const bool is_needless = cast->getType()->isArithmeticType() && !cast->isGLValue() &&
                             context_.hasSameUnqualifiedType(cast->getType(), inner->getType());
    std::vector<Edit> edits;
    if (is_needless) {
      const bool is_bare = isa<DeclRefExpr, MemberExpr, CallExpr, IntegerLiteral>(inner->IgnoreImpCasts());
      const auto open = places_.of(cast->getAngleBrackets().getEnd()),
                 close = places_.of(cast->getRParenLoc());
      if (!open || !close) return;
      edits.push_back({place->offset, open->offset + (is_bare ? 2 : 1), ""});
      if (is_bare) edits.push_back({close->offset, close->offset + 1, ""});
    }
    proposals_.propose(*place, 'S', edits);
  }
  // It held when the template was parsed with its arguments.
  void on(StaticAssertDecl* declaration) {
    if (const auto place = places_.of(declaration->getLocation()); place && !of_entry(*place)) {
      const std::string& text = places_.scope().text(place->file);
      const std::size_t begin = comment_begin(text, place->offset);
      proposals_.propose(
          *place, 's',
          {{begin, next_line(text, statement_end(text, places_.behind(declaration->getEndLoc()))), ""}});
    }
  }

  // ---- types

  void on(SubstTemplateTypeParmTypeLoc location) {
    const auto* parameter = location.getTypePtr()->getReplacedParameter();
    if (!text_.bound(parameter)) return;
    propose_type(location.getNameLoc(), location.getNameLoc(), location.getType());
  }
  void on(ElaboratedTypeLoc location) {
    const auto* alias = location.getNamedTypeLoc().getAs<TypedefTypeLoc>().getTypePtr();
    const bool is_alias = alias && depends(alias->getDecl());
    if (is_alias) {
      propose_type(location.getBeginLoc(), location.getEndLoc(), location.getType());
    } else {
      rename_namespace(location.getQualifierLoc());
    }
    if (location.getTypePtr()->getKeyword() == ElaboratedTypeKeyword::Typename &&
        is_named(location.getTypePtr()->getQualifier()))
      drop_keyword(location.getElaboratedKeywordLoc(), witness_of(location.getTypePtr()->getQualifier()));
  }
  void on(TypedefTypeLoc location) {
    if (depends(location.getTypedefNameDecl()))
      propose_type(location.getNameLoc(), location.getNameLoc(), location.getType());
  }
  void on(TemplateSpecializationTypeLoc location) {
    const TemplateDecl* named = location.getTypePtr()->getTemplateName().getAsTemplateDecl();
    drop_keyword(location.getTemplateKeywordLoc(), "");
    const TemplateParameterList* parameters = nullptr;
    if (auto* record = dyn_cast_or_null<ClassTemplateDecl>(named))
      parameters = written(record)->getTemplateParameters();
    if (auto* alias = dyn_cast_or_null<TypeAliasTemplateDecl>(named))
      parameters = written(alias)->getTemplateParameters();
    if (!parameters) return;
    std::vector<SourceRange> arguments;
    for (unsigned i = 0; i < location.getNumArgs(); ++i)
      arguments.push_back(location.getArgLoc(i).getSourceRange());
    // Parameters that stay may have defaults.
    lists_.drop_bound(parameters, location.getLAngleLoc(), location.getRAngleLoc(), arguments,
                      lists_.are_bound(parameters) ? "" : "<>");
  }

 private:
  void see(Decl* declaration) override { look<StaticAssertDecl>(*this, declaration); }
  void see(Stmt* statement) override {
    look<SubstNonTypeTemplateParmExpr, DeclRefExpr, MemberExpr, CXXMemberCallExpr, CXXStaticCastExpr, IfStmt,
         BinaryOperator, ConditionalOperator, ParenExpr>(*this, statement);
  }
  void see(TypeLoc type) override {
    look<SubstTemplateTypeParmTypeLoc, ElaboratedTypeLoc, TypedefTypeLoc, TemplateSpecializationTypeLoc>(
        *this, type);
  }

  // ---- what is written in the text

  bool of_entry(const Place& place) const { return places_.scope().is_entry(place.file); }
  Edit replaced(SourceRange range, const std::string& text) const {
    return {places_.of(range.getBegin())->offset, places_.behind(range.getEnd()), text};
  }
  template <typename Reference>
  void drop_arguments(const TemplateParameterList* parameters, const Reference* expression) {
    if (!expression->hasExplicitTemplateArgs()) return;
    std::vector<SourceRange> arguments;
    for (const TemplateArgumentLoc& argument : expression->template_arguments())
      arguments.push_back(argument.getSourceRange());
    lists_.drop_bound(parameters, expression->getLAngleLoc(), expression->getRAngleLoc(), arguments);
  }

  void drop_keyword(SourceLocation keyword, const std::string& witness) {
    const auto place = places_.of(keyword);
    if (!place) return;
    const std::string& text = places_.scope().text(place->file);
    const std::size_t end = text.find_first_not_of(" \n", places_.behind(keyword));
    proposals_.propose(*place, 'k', {{place->offset, end, ""}}, witness);
  }

  // Specialized code is in a namespace of its own; the entry stays outside.
  void rename_namespace(NestedNameSpecifierLoc qualifier) {
    if (!qualifier) return;
    while (qualifier.getNestedNameSpecifier()->getAsType() && qualifier.getPrefix())
      qualifier = qualifier.getPrefix();
    const NamespaceDecl* space = qualifier.getNestedNameSpecifier()->getAsNamespace();
    const auto place = places_.of(qualifier.getBeginLoc());
    if (!space || !place || !of_entry(*place)) return;
    const auto* outer = dyn_cast<NamespaceDecl>(space->getDeclContext());
    if (!outer || !outer->getDeclContext()->isTranslationUnit())
      return;  // `hydrac` alone, or a namespace within
    proposals_.propose(*place, 'n', {{place->offset, places_.behind(qualifier.getEndLoc()), scope_ + "::"}});
  }

  // True if the expression has a name in specialized code, and not a parameter's.
  bool is_named(const NestedNameSpecifier* qualifier) const {
    if (!qualifier || !qualifier->getAsType()) return true;
    const QualType type(qualifier->getAsType(), 0);
    return !text_.stays_dependent(type) && text_.type(type);
  }

  std::string witness_of(const NestedNameSpecifier* qualifier) const {
    if (!qualifier || !qualifier->getAsType()) return "";
    return QualType(qualifier->getAsType(), 0).getCanonicalType().getAsString(context_.getPrintingPolicy());
  }

  void propose_constant(const Expr* expression, SourceLocation begin, SourceLocation end) {
    const auto place = places_.of(begin);
    if (!place || !places_.of(end) || of_entry(*place)) return;
    const auto text = text_.constant(expression);
    std::vector<Edit> edits;
    if (text) edits.push_back({place->offset, places_.behind(end), *text});
    proposals_.propose(*place,
                       isa<CXXMemberCallExpr>(expression) ? 'M'
                       : isa<MemberExpr>(expression)      ? 'm'
                                                          : 'c',
                       edits);
  }

  // ---- types

  // True if an alias belongs to a template or its function, and so has one meaning in a specialized text.
  // False for an entry's own aliases, and for an alias of a library template's instance, which is shorter
  // than its arguments.
  bool depends(const TypedefNameDecl* alias) const {
    const auto place = places_.of_use(alias->getLocation());
    return place && !of_entry(*place) && !is_of_library(alias->getUnderlyingType()) &&
           !isa<NamespaceDecl, TranslationUnitDecl>(alias->getDeclContext()->getRedeclContext());
  }

  bool is_of_library(QualType type) const {
    const auto* instance = dyn_cast_or_null<ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
    return instance && !places_.contains(instance->getSpecializedTemplate());
  }

  void propose_type(SourceLocation begin, SourceLocation end, QualType type) {
    const auto place = places_.of(begin);
    if (!place || type->isDependentType()) return;
    std::vector<Edit> edits;
    if (const auto name = text_.type(type)) edits.push_back({place->offset, places_.behind(end), *name});
    proposals_.propose(*place, 'T', edits, type.getCanonicalType().getAsString(context_.getPrintingPolicy()));
  }

  const Places& places_;
  ASTContext& context_;
  const std::string& scope_;
  Proposals& proposals_;
  BoundText text_;
  Conditions conditions_;
  BoundLists lists_;
};

}  // namespace

void propose_bindings(const Places& places, const Instances& instances, const std::string& scope,
                      const Bindings& bindings, Proposals& proposals) {
  Binder binder(places, scope, bindings, proposals);
  for (Decl* decl : instances.declarations) binder.run(decl);
}

}  // namespace hydrac::specialize
