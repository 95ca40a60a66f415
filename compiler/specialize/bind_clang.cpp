#include "specialize/bind.h"

#include <clang/AST/ASTLambda.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <llvm/ADT/StringExtras.h>

#include "specialize/constants.h"

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

// Where the branches of if statements lie: an instance no longer has those that were discarded.
class Branches : public RecursiveASTVisitor<Branches> {
 public:
  explicit Branches(const Places& places) : places_(places) {}
  bool VisitIfStmt(IfStmt* statement) {
    if (const auto place = places_.of(statement->getIfLoc())) found_[*place] = statement;
    return true;
  }
  const IfStmt* at(const Place& place) const {
    const auto found = found_.find(place);
    return found == found_.end() ? nullptr : found->second;
  }

 private:
  const Places& places_;
  std::map<Place, const IfStmt*> found_;
};

class Binder : public RecursiveASTVisitor<Binder> {
 public:
  Binder(const Places& places, const std::string& scope, const Bindings& bindings, Proposals& proposals)
      : places_(places),
        context_(places.ast().context()),
        scope_(scope),
        bindings_(bindings),
        proposals_(proposals),
        branches_(places) {}

  void run(Decl* decl) {
    const Decl* pattern = pattern_of(decl);
    if (auto* function = dyn_cast<FunctionDecl>(decl)) {
      thin_function(function, pattern);
      const auto* body = isa<FunctionTemplateDecl>(pattern)
                             ? cast<FunctionTemplateDecl>(pattern)->getTemplatedDecl()
                             : cast<FunctionDecl>(pattern);
      if (const Stmt* text = body->getBody()) {
        branches_.TraverseStmt(const_cast<Stmt*>(text));
        const auto begin = places_.of_use(text->getBeginLoc());
        body_begin_ = begin ? begin->offset : 0;
        body_end_ = places_.behind(text->getEndLoc());
      }
      if (isa<CXXMethodDecl>(function)) record_ = cast<CXXMethodDecl>(function)->getParent();
      TraverseDecl(function);
      record_ = nullptr;
    } else if (auto* record = dyn_cast<CXXRecordDecl>(decl)) {
      thin_record(record, pattern);
      record_ = record;
      for (const CXXBaseSpecifier& base : record->bases())
        TraverseTypeLoc(base.getTypeSourceInfo()->getTypeLoc());
      for (Decl* member : record->decls()) {
        if (isa<FieldDecl, StaticAssertDecl, TypedefNameDecl>(member)) TraverseDecl(member);
      }
      record_ = nullptr;
    } else {
      // A variable template may have specializations: its uses become values, or it stays as it is.
      if (auto* variable = dyn_cast<VarDecl>(decl)) {
        record_ = dyn_cast<CXXRecordDecl>(variable->getDeclContext());
      }
      if (auto* specialization = dyn_cast<VarTemplateSpecializationDecl>(decl))
        TraverseStmt(specialization->getInit());
      if (auto* alias = dyn_cast<TypeAliasTemplateDecl>(decl)) thin(written(alias)->getTemplateParameters());
      TraverseDecl(decl);
      record_ = nullptr;
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
    const std::optional<bool> value = constant_condition(statement->getCond());
    const IfStmt* pattern = branches_.at(*place);
    if (!pattern) pattern = statement;
    if (statement->isConstexpr() && statement->getCond()->isValueDependent()) return true;
    proposals_.propose(*place, 'i', value ? branch_edits(pattern, *value) : std::vector<Edit>{});
    return true;
  }
  bool VisitBinaryOperator(BinaryOperator* operation) {
    if (operation->isLogicalOp()) {
      propose_logical(operation);
    } else if (const auto place = places_.of(operation->getOperatorLoc());
               place && !operation->isAssignmentOp()) {
      std::vector<Edit> edits;
      if (folds(operation)) edits.push_back(replaced(operation->getSourceRange(), *value_of(operation)));
      proposals_.propose(*place, 'a', edits);
    }
    return true;
  }
  bool VisitConditionalOperator(ConditionalOperator* operation) {
    const auto place = places_.of(operation->getQuestionLoc());
    const auto begin = places_.of(operation->getBeginLoc());
    if (!place || !begin || operation->getCond()->isValueDependent()) return true;
    std::vector<Edit> edits;
    if (const auto value = constant_condition(operation->getCond())) {
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
    if (const auto value = constant_condition(operation->getCond())) {
      const Expr* kept = as_written(*value ? operation->getTrueExpr() : operation->getFalseExpr());
      if (isa<DeclRefExpr, MemberExpr, IntegerLiteral, FloatingLiteral, CallExpr,
              SubstNonTypeTemplateParmExpr>(kept))
        edits = {{open->offset, open->offset + 1, ""}, {close->offset, close->offset + 1, ""}};
    }
    proposals_.propose(*open, '(', edits);
    return true;
  }
  bool propose_number(const ParenExpr* expression, const BinaryOperator* arithmetic) {
    const auto place = places_.of(expression->getLParen());
    if (!place || expression->getRParen().isMacroID()) return true;
    std::vector<Edit> edits;
    if (folds(arithmetic)) edits.push_back(replaced(expression->getSourceRange(), *value_of(arithmetic)));
    proposals_.propose(*place, '(', edits);
    return true;
  }
  // (true && a < b) || c needs no parentheses when folded.
  bool propose_bare(const ParenExpr* expression, const BinaryOperator* logical) {
    const auto open = places_.of(expression->getLParen()), close = places_.of(expression->getRParen());
    if (!open || !close || logical->isValueDependent()) return true;
    const bool neutral = logical->getOpcode() == BO_LAnd;
    const auto left = constant_condition(logical->getLHS()), right = constant_condition(logical->getRHS());
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
    if (folds(operation))
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
  // A redeclaration's parameters have places of their own.
  static const NamedDecl* written_parameter(const NamedDecl* parameter) {
    const auto* constant = dyn_cast<NonTypeTemplateParmDecl>(parameter);
    const auto* function = dyn_cast<FunctionDecl>(parameter->getDeclContext());
    const FunctionTemplateDecl* described = function ? function->getDescribedFunctionTemplate() : nullptr;
    if (!constant || !described || isLambdaCallOperator(function)) return parameter;
    return written(described)->getTemplateParameters()->getParam(constant->getIndex());
  }
  bool bound(const NamedDecl* parameter) const {
    parameter = written_parameter(parameter);
    const auto place = places_.of(parameter->getLocation());
    return place && bindings_.bound(*place);
  }

  // Takes bound parameters from a template's head.
  // A function that no longer is a template must say that it may stand in several files.
  void thin(const TemplateParameterList* parameters, const char* instead = "") {
    const auto place = places_.of(parameters->getTemplateLoc());
    if (!place || parameters->size() == 0) return;
    if (llvm::all_of(*parameters, [&](const NamedDecl* p) { return bound(p); })) {
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
    if (!llvm::all_of(*primary->getTemplateParameters(), [&](const NamedDecl* p) { return bound(p); }))
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
      if (!bound(parameters->getParam(static_cast<unsigned>(parameter)))) kept.push_back(i);
    }
    if (kept.size() == items.size()) return;
    std::vector<Edit> edits;
    if (kept.empty()) {
      edits.push_back({open->offset, close->offset + 1, ""});
    } else {
      std::size_t at = open->offset + 1;
      for (const std::size_t i : kept) {
        edits.push_back({at, places_.of(items[i].getBegin())->offset, i == kept.front() ? "" : ", "});
        at = places_.behind(items[i].getEnd());
      }
      edits.push_back({at, close->offset, ""});
    }
    proposals_.propose(*open, '<', edits);
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
    return !qualifier || !qualifier->getAsType() || name_of(QualType(qualifier->getAsType(), 0));
  }

  std::string witness_of(const NestedNameSpecifier* qualifier) const {
    if (!qualifier || !qualifier->getAsType()) return "";
    return QualType(qualifier->getAsType(), 0).getCanonicalType().getAsString(context_.getPrintingPolicy());
  }

  // ---- constants

  // An object whose members are known: a template argument, or a constexpr variable that a template declares.
  bool is_constant_object(const Expr* expression) const {
    expression = as_written(expression);
    if (isa<SubstNonTypeTemplateParmExpr>(expression)) return true;
    if (const auto* member = dyn_cast<MemberExpr>(expression))
      return isa<FieldDecl>(member->getMemberDecl()) && is_constant_object(member->getBase());
    const auto* reference = dyn_cast<DeclRefExpr>(expression);
    if (!reference) return false;
    if (isa<TemplateParamObjectDecl>(reference->getDecl())) return true;
    const auto* variable = dyn_cast<VarDecl>(reference->getDecl());
    if (!variable || !variable->isConstexpr()) return false;
    const auto place = places_.of(variable->getLocation());
    return place && !of_entry(*place) && (variable->isLocalVarDecl() || variable->isStaticDataMember());
  }

  std::optional<std::string> value_of(const Expr* expression) const {
    if (expression->isValueDependent() || !expression->getType()->isIntegralOrEnumerationType())
      return std::nullopt;
    Expr::EvalResult result;
    if (!expression->EvaluateAsRValue(result, context_) || result.HasSideEffects || !result.Val.isInt())
      return std::nullopt;
    const llvm::APSInt& value = result.Val.getInt();
    if (expression->getType()->isBooleanType()) return value == 0 ? "false" : "true";
    if (const auto* type = expression->getType()->getAs<EnumType>()) {
      for (const EnumConstantDecl* constant : type->getDecl()->enumerators()) {
        if (constant->getInitVal() == value)
          return type->getDecl()->getNameAsString() + "::" + constant->getNameAsString();
      }
    }
    return llvm::toString(value, 10);
  }

  std::string comment_behind(const Decl* decl) const {
    const auto place = places_.of_use(decl->getLocation());
    if (!place) return "";
    const std::string& text = places_.scope().text(place->file);
    const std::string line = text.substr(place->offset, next_line(text, place->offset) - place->offset);
    const std::size_t comment = line.find("//"), comma = line.find(',');
    if (comment == std::string::npos || comma < comment) return "";
    std::string found = line.substr(comment);
    while (!found.empty() && found.back() == '\n') found.pop_back();
    return found;
  }

  // What stands in the text for an expression that is the name of one bound value.
  std::optional<std::string> constant_text(const Expr* expression) const {
    const Decl* source = nullptr;
    std::string owner;
    if (const auto* parameter = dyn_cast<SubstNonTypeTemplateParmExpr>(expression)) {
      if (!bound(parameter->getParameter())) return std::nullopt;
      source = parameter->getParameter();
    } else if (const auto* call = dyn_cast<CXXMemberCallExpr>(expression)) {
      if (call->getNumArgs() != 0 || !is_constant_object(call->getImplicitObjectArgument()))
        return std::nullopt;
      source = call->getMethodDecl();
    } else if (const auto* member = dyn_cast<MemberExpr>(expression)) {
      if (!isa<FieldDecl>(member->getMemberDecl()) || !is_constant_object(member->getBase()))
        return std::nullopt;
      source = member->getMemberDecl();
    } else if (const auto* reference = dyn_cast<DeclRefExpr>(expression)) {
      const auto* variable = dyn_cast<VarDecl>(reference->getDecl());
      if (!variable || !variable->isConstexpr() || !places_.contains(variable)) return std::nullopt;
      if (const auto initial = initial_constant(variable)) return initial;
      if (isa<VarTemplateSpecializationDecl>(variable)) {
        source = variable;
      } else {
        if (!variable->isStaticDataMember() || !variable->getTemplateInstantiationPattern())
          return std::nullopt;
        if (variable->getDeclContext() == record_) return std::nullopt;  // its class says what it is
        source = variable;
      }
    } else {
      return std::nullopt;
    }
    const auto value = value_of(expression);
    if (!value) return object_text(expression);
    const auto* named = cast<NamedDecl>(source);
    const QualType type = expression->getType();
    if (type->isBooleanType() || type->isEnumeralType() || named->getName().size() <= 1) return value;
    if (const auto* context = dyn_cast<NamedDecl>(source->getDeclContext()))
      owner = context->getNameAsString();
    return mark_of({named->getNameAsString(), owner,
                    type.getUnqualifiedType().getAsString(context_.getPrintingPolicy()), *value,
                    comment_behind(source)});
  }

  // "ProductTile{256, 3, 2}" for the use of a parameter that is an object of numbers.
  std::optional<std::string> object_text(const Expr* expression) const {
    const auto* parameter = dyn_cast<SubstNonTypeTemplateParmExpr>(expression);
    const auto* reference =
        parameter ? dyn_cast<DeclRefExpr>(parameter->getReplacement()->IgnoreImpCasts()) : nullptr;
    const auto* object = reference ? dyn_cast<TemplateParamObjectDecl>(reference->getDecl()) : nullptr;
    const auto name = object ? name_of(object->getType().getUnqualifiedType()) : std::nullopt;
    if (!name || !object->getValue().isStruct() || object->getValue().getStructNumBases() > 0)
      return std::nullopt;
    std::string members;
    for (unsigned i = 0; i < object->getValue().getStructNumFields(); ++i) {
      const APValue& member = object->getValue().getStructField(i);
      if (!member.isInt()) return std::nullopt;
      members += (i == 0 ? "" : ", ") + llvm::toString(member.getInt(), 10);
    }
    return *name + "{" + members + "}";
  }

  // Of a variable that only gives another name to a number.
  std::optional<std::string> initial_constant(const VarDecl* variable) const {
    if (!variable->isLocalVarDecl() && !variable->isStaticDataMember()) return std::nullopt;
    const auto place = places_.of(variable->getLocation());
    if (!place || of_entry(*place)) return std::nullopt;
    const Expr* initial = variable->getAnyInitializer();
    return initial && !variable->getType()->isRecordType() ? constant_text(as_written(initial))
                                                           : std::nullopt;
  }

  void propose_constant(const Expr* expression, SourceLocation begin, SourceLocation end) {
    const auto place = places_.of(begin);
    if (!place || !places_.of(end) || of_entry(*place)) return;
    const auto text = constant_text(expression);
    std::vector<Edit> edits;
    if (text) edits.push_back({place->offset, places_.behind(end), *text});
    proposals_.propose(*place,
                       isa<CXXMemberCallExpr>(expression) ? 'M'
                       : isa<MemberExpr>(expression)      ? 'm'
                                                          : 'c',
                       edits);
  }

  // Arithmetic of numbers and of parameters that have no telling name.
  bool folds(const BinaryOperator* operation) const {
    bool has_parameter = false;
    return is_literal(operation, has_parameter) && has_parameter && value_of(operation);
  }
  bool is_literal(const Expr* expression, bool& has_parameter) const {
    expression = as_written(expression);
    if (const auto* operation = dyn_cast<BinaryOperator>(expression))
      return is_literal(operation->getLHS(), has_parameter) && is_literal(operation->getRHS(), has_parameter);
    if (const auto* parameter = dyn_cast<SubstNonTypeTemplateParmExpr>(expression)) {
      has_parameter = true;
      return bound(parameter->getParameter()) &&
             cast<NamedDecl>(parameter->getParameter())->getName().size() <= 1;
    }
    return isa<IntegerLiteral>(expression);
  }

  // ---- conditions

  std::optional<bool> constant_condition(const Expr* condition) const {
    bool value = false;
    if (condition->isValueDependent() || !condition->EvaluateAsBooleanCondition(value, context_))
      return std::nullopt;
    return value;
  }

  void propose_logical(const BinaryOperator* operation) {
    const auto place = places_.of(operation->getOperatorLoc());
    const auto begin = places_.of(operation->getBeginLoc()),
               right = places_.of(operation->getRHS()->getBeginLoc());
    if (!place || !begin || !right || operation->isValueDependent()) return;
    std::vector<Edit> edits;
    const bool neutral = operation->getOpcode() == BO_LAnd;
    const std::size_t left_end = places_.behind(operation->getLHS()->getEndLoc()),
                      end = places_.behind(operation->getEndLoc());
    if (const auto value = constant_condition(operation)) {
      edits.push_back({begin->offset, end, *value ? "true" : "false"});
    } else if (constant_condition(operation->getLHS()) == neutral) {
      edits.push_back({begin->offset, right->offset, ""});
    } else if (constant_condition(operation->getRHS()) == neutral) {
      edits.push_back({left_end, end, ""});
    }
    proposals_.propose(*place, '&', edits);
  }

  std::size_t end_of(const Stmt* statement) const {
    const std::string& text = places_.scope().text(places_.of_use(statement->getBeginLoc())->file);
    const std::size_t end = places_.behind(statement->getEndLoc());
    if (isa<CompoundStmt>(statement)) return end;
    const std::size_t semicolon = text.find_first_not_of(" \n", end);
    return semicolon < text.size() && text[semicolon] == ';' ? semicolon + 1 : end;
  }

  // Whether a block without its braces would hide a name that the function uses elsewhere than in [begin,
  // end).
  bool hides_names(const std::string& text, const CompoundStmt* block, std::size_t begin,
                   std::size_t end) const {
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (const Stmt* statement : block->body()) {
      const auto* declarations = dyn_cast<DeclStmt>(statement);
      if (!declarations) continue;
      for (const Decl* decl : declarations->decls()) {
        const auto* named = dyn_cast<NamedDecl>(decl);
        const std::string name = named ? named->getNameAsString() : "";
        for (std::size_t at = text.find(name, body_begin_); at < body_end_; at = text.find(name, at + 1)) {
          const bool is_whole = !is_word(text[at - 1]) && !is_word(text[at + name.size()]);
          const bool is_member = text[at - 1] == '.' || text[at - 1] == '>';
          if (is_whole && !is_member && (at < begin || at >= end)) return true;
        }
      }
    }
    return false;
  }

  std::vector<Edit> branch_edits(const IfStmt* statement, bool value) const {
    const Place from = *places_.of(statement->getIfLoc());
    const std::string& text = places_.scope().text(from.file);
    const Stmt* kept = value ? statement->getThen() : statement->getElse();
    const std::size_t end = end_of(statement->getElse() ? statement->getElse() : statement->getThen());
    if (!kept) {
      const std::size_t before = text.find_last_not_of(" \n", from.offset - 1);
      const std::size_t above = line_begin(text, line_begin(text, from.offset) - 1);
      const bool stands_alone = std::string_view("{};").find(text[before]) != std::string_view::npos ||
                                text.substr(above, 2) == "//" ||
                                comment_begin(text, from.offset) != line_begin(text, from.offset);
      if (!stands_alone) return {{from.offset, end, "{}"}};
      return {{comment_begin(text, from.offset), std::min(next_line(text, end), text.size()), ""}};
    }
    std::vector<Edit> edits;
    const std::size_t kept_begin = places_.of_use(kept->getBeginLoc())->offset, kept_end = end_of(kept);
    const auto* block = dyn_cast<CompoundStmt>(kept);
    const bool bare = block && !block->body_empty() && !hides_names(text, block, from.offset, end);
    if (bare) {
      edits.push_back({from.offset, text.find_first_not_of(" \n", kept_begin + 1), ""});
      edits.push_back({text.find_last_not_of(" \n", kept_end - 2) + 1, kept_end, ""});
    } else {
      edits.push_back({from.offset, kept_begin, ""});
    }
    if (end > kept_end) edits.push_back({kept_end, end, ""});
    return edits;
  }

  // ---- types

  // Whether an alias is of a template or of a function, and so has one meaning in a specialized text.
  bool depends(const TypedefNameDecl* alias) const {
    return places_.contains(alias) &&
           !isa<NamespaceDecl, TranslationUnitDecl>(alias->getDeclContext()->getRedeclContext());
  }

  void propose_type(SourceLocation begin, SourceLocation end, QualType type) {
    const auto place = places_.of(begin);
    if (!place || type->isDependentType()) return;
    std::vector<Edit> edits;
    if (const auto name = name_of(type)) edits.push_back({place->offset, places_.behind(end), *name});
    proposals_.propose(*place, 'T', edits, type.getCanonicalType().getAsString(context_.getPrintingPolicy()));
  }

  // As specialized code spells a type; no value where it has no name.
  std::optional<std::string> name_of(QualType type) const {
    type = type.getCanonicalType();
    const std::string qualifier = type.isConstQualified() ? "const " : "";
    const Type* plain = type.getTypePtr();
    if (isa<BuiltinType>(plain)) {
      const std::string name = type.getUnqualifiedType().getAsString(context_.getPrintingPolicy());
      const std::map<std::string, std::string> fixed = {{"unsigned int", "std::uint32_t"},
                                                        {"unsigned short", "std::uint16_t"},
                                                        {"unsigned char", "unsigned char"},
                                                        {"long", "std::int64_t"},
                                                        {"unsigned long", "std::uint64_t"}};
      const auto found = fixed.find(name);
      return qualifier + (found == fixed.end() ? name : found->second);
    }
    const auto* tag = plain->getAsTagDecl();
    if (!tag || !tag->getIdentifier()) return std::nullopt;
    if (const auto place = places_.of(tag->getLocation()); place && of_entry(*place)) return std::nullopt;
    std::string name = tag->getNameAsString();
    if (const auto* specialization = dyn_cast<ClassTemplateSpecializationDecl>(tag)) {
      const auto arguments = arguments_of(specialization);
      if (!arguments) return std::nullopt;
      name += *arguments;
    }
    for (const DeclContext* outer = tag->getDeclContext(); !outer->isTranslationUnit();
         outer = outer->getParent()) {
      if (const auto* record = dyn_cast<CXXRecordDecl>(outer)) {
        const auto outer_name = name_of(context_.getRecordType(record));
        return outer_name ? std::optional(qualifier + *outer_name + "::" + name) : std::nullopt;
      }
      const auto* space = dyn_cast<NamespaceDecl>(outer);
      if (!space) return std::nullopt;
      // hydrac::cuda::ptx: what lies within the namespace that becomes the specialized one
      const auto* parent = dyn_cast<NamespaceDecl>(space->getDeclContext());
      if (parent && !parent->getDeclContext()->isTranslationUnit())
        name = space->getNameAsString() + "::" + name;
    }
    return qualifier + name;
  }

  std::optional<std::string> arguments_of(const ClassTemplateSpecializationDecl* specialization) const {
    const TemplateParameterList* parameters =
        written(specialization->getSpecializedTemplate())->getTemplateParameters();
    std::string list;
    for (unsigned i = 0; i < parameters->size(); ++i) {
      if (bound(parameters->getParam(i))) continue;
      const TemplateArgument& argument = specialization->getTemplateArgs()[i];
      std::string text;
      if (argument.getKind() == TemplateArgument::Type) {
        const auto name = name_of(argument.getAsType());
        if (!name) return std::nullopt;
        text = *name;
      } else if (argument.getKind() == TemplateArgument::Integral) {
        text = llvm::toString(argument.getAsIntegral(), 10);
      } else {
        return std::nullopt;
      }
      list += (list.empty() ? "" : ", ") + text;
    }
    return list.empty() ? "" : "<" + list + ">";
  }

  const Places& places_;
  ASTContext& context_;
  const std::string& scope_;
  const Bindings& bindings_;
  Proposals& proposals_;
  Branches branches_;
  const DeclContext* record_ = nullptr;        // whose member is visited
  std::size_t body_begin_ = 0, body_end_ = 0;  // of the visited function, in the text
};

}  // namespace

void propose_bindings(const Places& places, const Instances& instances, const std::string& scope,
                      const Bindings& bindings, Proposals& proposals) {
  Binder binder(places, scope, bindings, proposals);
  for (Decl* decl : instances.declarations) binder.run(decl);
}

}  // namespace hydrac::specialize
