#include "specialize/bind.h"

#include <clang/AST/ASTLambda.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include "specialize/bind_conditions.h"
#include "specialize/bind_text.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

void Proposals::propose(const Place& place, char kind, std::vector<Edit> edits, const std::string& witness) {
  std::sort(edits.begin(), edits.end());
  auto [found, is_new] = proposals_.try_emplace({place, kind}, Proposal{edits, witness});
  if (!is_new && (found->second.edits != edits || found->second.witness != witness))
    found->second.disputed = true;
}

void Proposals::add(const Proposals& other) {
  for (const auto& [key, proposal] : other.proposals_) {
    auto [found, is_new] = proposals_.try_emplace(key, proposal);
    if (proposal.disputed || found->second.edits != proposal.edits) found->second.disputed = true;
  }
}

std::map<int, std::vector<Edit>> Proposals::agreed() const {
  std::map<int, std::vector<Edit>> edits;
  for (const auto& [key, proposal] : proposals_) {
    if (proposal.disputed) continue;
    std::vector<Edit>& all = edits[key.first.file];
    all.insert(all.end(), proposal.edits.begin(), proposal.edits.end());
  }
  return edits;
}

namespace {

class Binder : public RecursiveASTVisitor<Binder> {
 public:
  Binder(const Places& places, const std::string& scope, const Bindings& bindings, Proposals& proposals)
      : places_(places),
        context_(places.ast().context()),
        scope_(scope),
        proposals_(proposals),
        text_(places, bindings),
        conditions_(places) {}

  void run(Decl* decl) {
    const Decl* pattern = pattern_of(decl);
    if (auto* function = dyn_cast<FunctionDecl>(decl)) {
      thin_function(function, pattern);
      const auto* body = isa<FunctionTemplateDecl>(pattern)
                             ? cast<FunctionTemplateDecl>(pattern)->getTemplatedDecl()
                             : cast<FunctionDecl>(pattern);
      if (const Stmt* text = body->getBody()) conditions_.enter(text);
      if (isa<CXXMethodDecl>(function)) text_.visit(cast<CXXMethodDecl>(function)->getParent());
      TraverseDecl(function);
      text_.visit(nullptr);
    } else if (auto* record = dyn_cast<CXXRecordDecl>(decl)) {
      thin_record(record, pattern);
      text_.visit(record);
      for (const CXXBaseSpecifier& base : record->bases())
        TraverseTypeLoc(base.getTypeSourceInfo()->getTypeLoc());
      for (Decl* member : record->decls()) {
        if (isa<FieldDecl, StaticAssertDecl, TypedefNameDecl>(member)) TraverseDecl(member);
      }
      text_.visit(nullptr);
    } else {
      // A variable template may have specializations: its uses become values, or it stays as it is.
      if (auto* variable = dyn_cast<VarDecl>(decl)) {
        text_.visit(dyn_cast<CXXRecordDecl>(variable->getDeclContext()));
      }
      if (auto* specialization = dyn_cast<VarTemplateSpecializationDecl>(decl))
        TraverseStmt(specialization->getInit());
      if (auto* alias = dyn_cast<TypeAliasTemplateDecl>(decl)) thin(written(alias)->getTemplateParameters());
      TraverseDecl(decl);
      text_.visit(nullptr);
    }
  }

  // ---- constants

  bool VisitSubstNonTypeTemplateParmExpr(SubstNonTypeTemplateParmExpr* expression) {
    propose_constant(expression, expression->getNameLoc(), expression->getNameLoc());
    return true;
  }
  bool VisitDeclRefExpr(DeclRefExpr* expression) {
    if (isa<TemplateParamObjectDecl>(expression->getDecl())) return true;  // what stands for a parameter
    propose_constant(expression, expression->getBeginLoc(), expression->getEndLoc());
    if (auto* function = dyn_cast<FunctionDecl>(expression->getDecl())) {
      if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate())
        drop_arguments(written(primary)->getTemplateParameters(), expression);
    }
    if (is_named(expression->getQualifier()) || becomes_plain(expression->getDecl()))
      drop_keyword(expression->getTemplateKeywordLoc(), witness_of(expression->getQualifier()));
    rename_namespace(expression->getQualifierLoc());
    return true;
  }
  bool VisitMemberExpr(MemberExpr* expression) {
    propose_constant(expression, expression->getBeginLoc(), expression->getEndLoc());
    if (auto* function = dyn_cast<FunctionDecl>(expression->getMemberDecl())) {
      if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate())
        drop_arguments(written(primary)->getTemplateParameters(), expression);
    }
    if (!text_.stays_dependent(expression->getBase()->getType()) ||
        becomes_plain(expression->getMemberDecl()))
      drop_keyword(expression->getTemplateKeywordLoc(), "");
    return true;
  }
  bool VisitCXXMemberCallExpr(CXXMemberCallExpr* expression) {
    propose_constant(expression, expression->getBeginLoc(), expression->getEndLoc());
    return true;
  }

  // ---- conditions

  bool VisitIfStmt(IfStmt* statement) {
    const auto place = places_.of(statement->getIfLoc());
    if (!place || statement->hasInitStorage() || statement->hasVarStorage()) return true;
    const std::optional<bool> value = conditions_.value_of(statement->getCond());
    if (statement->isConstexpr() && statement->getCond()->isValueDependent()) return true;
    proposals_.propose(*place, 'i', value ? conditions_.prune(statement, *value) : std::vector<Edit>{});
    return true;
  }
  bool VisitBinaryOperator(BinaryOperator* operation) {
    if (operation->isLogicalOp()) {
      // Where instances disagree about the whole, they may agree about a side.
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
    return true;
  }
  bool VisitConditionalOperator(ConditionalOperator* operation) {
    const auto place = places_.of(operation->getQuestionLoc());
    const auto begin = places_.of(operation->getBeginLoc());
    if (!place || !begin || operation->getCond()->isValueDependent()) return true;
    std::vector<Edit> edits;
    if (const auto value = conditions_.value_of(operation->getCond())) {
      const Expr* kept = *value ? operation->getTrueExpr() : operation->getFalseExpr();
      const auto from = places_.of(kept->getBeginLoc());
      if (from) {
        edits.push_back({begin->offset, from->offset, ""});
        if (*value)
          edits.push_back({places_.behind(kept->getEndLoc()), places_.behind(operation->getEndLoc()), ""});
      }
    }
    proposals_.propose(*place, '?', edits);
    return true;
  }
  bool VisitParenExpr(ParenExpr* expression) {
    if (const auto* logical = dyn_cast<BinaryOperator>(expression->getSubExpr());
        logical && logical->isLogicalOp())
      return propose_bare(expression, logical);
    if (const auto* sum = dyn_cast<BinaryOperator>(expression->getSubExpr()))
      return propose_folded(expression, sum);
    // Around what is one word when folded.
    const auto* operation = dyn_cast<ConditionalOperator>(expression->getSubExpr());
    const auto open = places_.of(expression->getLParen()), close = places_.of(expression->getRParen());
    if (!operation || !open || !close || operation->getCond()->isValueDependent()) return true;
    std::vector<Edit> edits;
    std::string witness;  // they go where all instances keep the same side
    if (const auto value = conditions_.value_of(operation->getCond())) {
      witness = *value ? "true" : "false";
      const Expr* kept = as_written(*value ? operation->getTrueExpr() : operation->getFalseExpr());
      if (isa<DeclRefExpr, MemberExpr, IntegerLiteral, FloatingLiteral, CallExpr,
              SubstNonTypeTemplateParmExpr>(kept))
        edits = {{open->offset, open->offset + 1, ""}, {close->offset, close->offset + 1, ""}};
    }
    proposals_.propose(*open, '(', edits, witness);
    return true;
  }
  // (true && a < b) || c needs no parentheses when folded.
  bool propose_bare(const ParenExpr* expression, const BinaryOperator* logical) {
    const auto open = places_.of(expression->getLParen()), close = places_.of(expression->getRParen());
    if (!open || !close || logical->isValueDependent()) return true;
    const bool neutral = logical->getOpcode() == BO_LAnd;
    const auto left = conditions_.value_of(logical->getLHS()),
               right = conditions_.value_of(logical->getRHS());
    const Expr* kept = left == neutral ? logical->getRHS() : right == neutral ? logical->getLHS() : nullptr;
    const std::string& text = places_.scope().text(open->file);
    const std::string_view before(text.data(), text.find_last_not_of(" \n", open->offset - 1) + 1);
    std::vector<Edit> edits;
    if (kept &&
        !(isa<BinaryOperator>(as_written(kept)) && cast<BinaryOperator>(as_written(kept))->isLogicalOp()) &&
        (before.ends_with("||") || before.ends_with("&&")))
      edits = {{open->offset, open->offset + 1, ""}, {close->offset, close->offset + 1, ""}};
    proposals_.propose(*open, '(', edits);
    return true;
  }
  bool propose_folded(const ParenExpr* expression, const BinaryOperator* operation) {
    const auto open = places_.of(expression->getLParen()), close = places_.of(expression->getRParen());
    if (!open || !close || operation->isValueDependent()) return true;
    std::vector<Edit> edits;
    if (text_.folds(operation))
      edits = {{open->offset, open->offset + 1, ""}, {close->offset, close->offset + 1, ""}};
    proposals_.propose(*open, '(', edits);
    return true;
  }
  // It held when the template was parsed with its arguments.
  bool VisitStaticAssertDecl(StaticAssertDecl* declaration) {
    if (const auto place = places_.of(declaration->getLocation()); place && !of_entry(*place)) {
      const std::string& text = places_.scope().text(place->file);
      const std::size_t begin = comment_begin(text, place->offset);
      proposals_.propose(
          *place, 's',
          {{begin, next_line(text, statement_end(text, places_.behind(declaration->getEndLoc()))), ""}});
    }
    return true;
  }

  // ---- types

  bool VisitSubstTemplateTypeParmTypeLoc(SubstTemplateTypeParmTypeLoc location) {
    const auto* parameter = location.getTypePtr()->getReplacedParameter();
    if (!text_.bound(parameter)) return true;
    propose_type(location.getNameLoc(), location.getNameLoc(), location.getType());
    return true;
  }
  bool VisitElaboratedTypeLoc(ElaboratedTypeLoc location) {
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
    return true;
  }
  bool VisitTypedefTypeLoc(TypedefTypeLoc location) {
    if (depends(location.getTypedefNameDecl()))
      propose_type(location.getNameLoc(), location.getNameLoc(), location.getType());
    return true;
  }
  bool VisitTemplateSpecializationTypeLoc(TemplateSpecializationTypeLoc location) {
    const TemplateDecl* named = location.getTypePtr()->getTemplateName().getAsTemplateDecl();
    drop_keyword(location.getTemplateKeywordLoc(), "");
    const TemplateParameterList* parameters = nullptr;
    if (auto* record = dyn_cast_or_null<ClassTemplateDecl>(named))
      parameters = written(record)->getTemplateParameters();
    if (auto* alias = dyn_cast_or_null<TypeAliasTemplateDecl>(named))
      parameters = written(alias)->getTemplateParameters();
    if (!parameters) return true;
    std::vector<SourceRange> arguments;
    for (unsigned i = 0; i < location.getNumArgs(); ++i)
      arguments.push_back(location.getArgLoc(i).getSourceRange());
    drop_bound(parameters, location.getLAngleLoc(), location.getRAngleLoc(), arguments);
    return true;
  }

 private:
  // ---- what is written in the text

  bool of_entry(const Place& place) const { return places_.scope().is_entry(place.file); }
  Edit replaced(SourceRange range, const std::string& text) const {
    return {places_.of(range.getBegin())->offset, places_.behind(range.getEnd()), text};
  }
  // Takes bound parameters from a template's head.
  // A function that no longer is a template must say that it may stand in several files.
  void thin(const TemplateParameterList* parameters, const char* instead = "") {
    const auto place = places_.of(parameters->getTemplateLoc());
    if (!place || parameters->size() == 0) return;
    if (llvm::all_of(*parameters, [&](const NamedDecl* p) { return text_.bound(p); })) {
      const std::string& text = places_.scope().text(place->file);
      const std::size_t end = text.find_first_not_of(" \n", places_.behind(parameters->getRAngleLoc()));
      proposals_.propose(*place, 't', {{place->offset, end, instead}});
      return;
    }
    std::vector<SourceRange> ranges;
    for (const NamedDecl* parameter : *parameters) ranges.push_back(parameter->getSourceRange());
    drop_bound(parameters, parameters->getLAngleLoc(), parameters->getRAngleLoc(), ranges);
  }

  void thin_function(FunctionDecl* function, const Decl* pattern) {
    if (auto* described = dyn_cast<FunctionTemplateDecl>(pattern);
        described && !isLambdaCallOperator(function))
      thin(described->getTemplateParameters(), inline_of(described->getTemplatedDecl()));
    if (function->getTemplateSpecializationKind() != TSK_ExplicitSpecialization) return;
    const auto* primary = written(function->getPrimaryTemplate());
    if (!llvm::all_of(*primary->getTemplateParameters(), [&](const NamedDecl* p) { return text_.bound(p); }))
      return;
    const ASTTemplateArgumentListInfo* arguments = function->getTemplateSpecializationArgsAsWritten();
    if (arguments && arguments->getLAngleLoc().isValid()) {
      const auto place = places_.of(arguments->getLAngleLoc());
      proposals_.propose(*place, '<', {{place->offset, places_.behind(arguments->getRAngleLoc()), ""}});
    }
    if (function->getNumTemplateParameterLists() == 0) return;
    const TemplateParameterList* head = function->getTemplateParameterList(0);
    if (const auto place = places_.of(head->getTemplateLoc())) {
      const std::string& text = places_.scope().text(place->file);
      const std::size_t end = text.find_first_not_of(" \n", places_.behind(head->getRAngleLoc()));
      proposals_.propose(*place, 't', {{place->offset, end, inline_of(function)}});
    }
  }

  static const char* inline_of(const FunctionDecl* function) {
    const bool says_so = function->isInlineSpecified() || function->isConstexpr() ||
                         function->isCXXClassMember() || function->getStorageClass() == SC_Static;
    return says_so ? "" : "inline ";
  }

  void thin_record(CXXRecordDecl*, const Decl* pattern) {
    if (auto* described = dyn_cast<ClassTemplateDecl>(pattern)) thin(described->getTemplateParameters());
  }

  template <typename Reference>
  void drop_arguments(const TemplateParameterList* parameters, const Reference* expression) {
    if (!expression->hasExplicitTemplateArgs()) return;
    std::vector<SourceRange> arguments;
    for (const TemplateArgumentLoc& argument : expression->template_arguments())
      arguments.push_back(argument.getSourceRange());
    drop_bound(parameters, expression->getLAngleLoc(), expression->getRAngleLoc(), arguments);
  }

  // From a list <...> of what stands for `parameters`, takes out what is bound.
  void drop_bound(const TemplateParameterList* parameters, SourceLocation left, SourceLocation right,
                  const std::vector<SourceRange>& items) {
    const auto open = places_.of(left), close = places_.of(right);
    if (!open || !close) return;
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t parameter = std::min<std::size_t>(i, parameters->size() - 1);
      if (!text_.bound(parameters->getParam(static_cast<unsigned>(parameter)))) kept.push_back(i);
    }
    if (kept.size() == items.size()) return;
    std::vector<Edit> edits;
    if (kept.empty()) {
      edits.push_back({open->offset, close->offset + 1, ""});
    } else {
      std::size_t at = open->offset + 1;
      for (const std::size_t i : kept) {
        edits.push_back({at, begin_with_comment(open->file, at, places_.of(items[i].getBegin())->offset),
                         i == kept.front() ? "" : ", "});
        at = places_.behind(items[i].getEnd());
      }
      edits.push_back({at, close->offset, ""});
    }
    proposals_.propose(*open, '<', edits);
  }

  // Of a function, that it no longer is a template.
  bool becomes_plain(const ValueDecl* decl) const {
    const auto* function = dyn_cast<FunctionDecl>(decl);
    const FunctionTemplateDecl* primary = function ? function->getPrimaryTemplate() : nullptr;
    return primary && llvm::all_of(*written(primary)->getTemplateParameters(),
                                   [&](const NamedDecl* p) { return text_.bound(p); });
  }

  // Of the item of a list that begins at `begin`, where the /*name=*/ before it does.
  std::size_t begin_with_comment(int file, std::size_t from, std::size_t begin) const {
    const std::string& text = places_.scope().text(file);
    const std::size_t comment = text.rfind("/*", begin), end = text.rfind("*/", begin);
    const bool is_before = comment != std::string::npos && comment >= from && end + 2 == begin;
    return is_before ? comment : begin;
  }

  void drop_keyword(SourceLocation keyword, const std::string& witness) {
    const auto place = places_.of(keyword);
    if (!place) return;
    const std::string& text = places_.scope().text(place->file);
    const std::size_t end = text.find_first_not_of(" \n", places_.behind(keyword));
    proposals_.propose(*place, 'k', {{place->offset, end, ""}}, witness);
  }

  // What was specialized is in a namespace of its own; the entry stays outside.
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

  // Whether what it says has a name in specialized code, and not a parameter's.
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

  // Whether an alias is of a template or of its function, and so has one meaning in a specialized text. An
  // entry's aliases are its own.
  bool depends(const TypedefNameDecl* alias) const {
    const auto place = places_.of_use(alias->getLocation());
    return place && !of_entry(*place) &&
           !isa<NamespaceDecl, TranslationUnitDecl>(alias->getDeclContext()->getRedeclContext());
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
};

}  // namespace

void propose_bindings(const Places& places, const Instances& instances, const std::string& scope,
                      const Bindings& bindings, Proposals& proposals) {
  Binder binder(places, scope, bindings, proposals);
  for (Decl* decl : instances.declarations) binder.run(decl);
}

}  // namespace hydrac::specialize
