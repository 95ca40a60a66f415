#include <clang/AST/ASTLambda.h>
#include <clang/Lex/Lexer.h>
#include <llvm/ADT/StringExtras.h>

#include "specialize/edits.h"
#include "specialize/instances.h"
#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

int Scope::number_of(const std::string& path) const {
  const auto found =
      std::find_if(files_.begin(), files_.end(), [&](const SourceFile& f) { return f.path == path; });
  return found == files_.end() ? -1 : static_cast<int>(found - files_.begin());
}

int Places::number_of(FileID file) const {
  const auto [found, is_new] = numbers_.try_emplace(file);
  if (is_new) found->second = scope_.number_of(ast_.path_of(ast_.sources().getLocForStartOfFile(file)));
  return found->second;
}

std::optional<Place> Places::of(SourceLocation location) const {
  // Half of a >> is a token of its own, which lies in the text too.
  if (is_half(location)) location = ast_.sources().getExpansionLoc(location);
  if (location.isInvalid() || location.isMacroID()) return std::nullopt;
  const auto [file, offset] = ast_.sources().getDecomposedLoc(location);
  const int number = number_of(file);
  if (number < 0) return std::nullopt;
  return Place{number, offset};
}

std::optional<Place> Places::of_use(SourceLocation location) const {
  return of(location.isInvalid() ? location : ast_.sources().getExpansionLoc(location));
}

std::size_t Places::behind(SourceLocation location) const {
  const CharSourceRange range = ast_.sources().getExpansionRange(location);
  if (range.isCharRange()) return ast_.sources().getFileOffset(range.getEnd());
  return ast_.sources().getFileOffset(range.getEnd()) +
         Lexer::MeasureTokenLength(range.getEnd(), ast_.sources(), ast_.language());
}

std::size_t Places::behind_declaration(const Decl* decl) const {
  const std::string& text = scope_.text(of_use(decl->getLocation())->file);
  const std::size_t end = behind(decl->getEndLoc());
  const FunctionDecl* function = decl->getAsFunction();
  if (function && function->doesThisDeclarationHaveABody()) return statement_end(text, end);
  const std::size_t semicolon = text.find(';', end);
  return statement_end(text, semicolon == std::string::npos ? end : semicolon + 1);
}

bool Places::is_half(SourceLocation location) const {
  return location.isMacroID() && ast_.sources().getImmediateExpansionRange(location).isCharRange();
}

const FunctionTemplateDecl* written(const FunctionTemplateDecl* declaration) {
  while (const auto* from = declaration->getInstantiatedFromMemberTemplate()) declaration = from;
  const FunctionDecl* definition = nullptr;
  if (declaration->getTemplatedDecl()->isDefined(definition) && definition->getDescribedFunctionTemplate())
    return definition->getDescribedFunctionTemplate();
  return declaration->getCanonicalDecl();
}

const ClassTemplateDecl* written(const ClassTemplateDecl* declaration) {
  while (const auto* from = declaration->getInstantiatedFromMemberTemplate()) declaration = from;
  if (const CXXRecordDecl* definition = declaration->getTemplatedDecl()->getDefinition())
    return definition->getDescribedClassTemplate();
  return declaration->getCanonicalDecl();
}

const TypeAliasTemplateDecl* written(const TypeAliasTemplateDecl* declaration) {
  while (const auto* from = declaration->getInstantiatedFromMemberTemplate()) declaration = from;
  return declaration;
}

const VarTemplateDecl* written(const VarTemplateDecl* declaration) {
  while (const auto* from = declaration->getInstantiatedFromMemberTemplate()) declaration = from;
  return declaration->getCanonicalDecl();
}

const CXXRecordDecl* record_of(const Decl* decl) {
  if (const auto* described = dyn_cast<ClassTemplateDecl>(decl)) return described->getTemplatedDecl();
  return dyn_cast<CXXRecordDecl>(decl);
}

const CXXRecordDecl* definition_behind(const Decl* decl) {
  const CXXRecordDecl* record = record_of(decl);
  if (!record || isa<ClassTemplateSpecializationDecl>(record)) return nullptr;
  const CXXRecordDecl* definition = record->getDefinition();
  return definition == record ? nullptr : definition;
}

const Decl* pattern_of(const Decl* decl) {
  if (const auto* function = dyn_cast<FunctionDecl>(decl)) {
    if (function->getTemplateSpecializationKind() == TSK_ExplicitSpecialization) return function;
    if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate()) return written(primary);
    if (const FunctionTemplateDecl* described = function->getDescribedFunctionTemplate())
      return written(described);
    if (const FunctionDecl* pattern = function->getTemplateInstantiationPattern()) return pattern;
    const FunctionDecl* definition = nullptr;
    return function->isDefined(definition) ? definition : function;
  }
  if (const auto* specialization = dyn_cast<ClassTemplateSpecializationDecl>(decl)) {
    if (specialization->isExplicitSpecialization()) return specialization;
    const auto from = specialization->getInstantiatedFrom();
    if (auto* partial = llvm::dyn_cast_if_present<ClassTemplatePartialSpecializationDecl*>(from))
      return partial;
    return written(specialization->getSpecializedTemplate());
  }
  if (const auto* record = dyn_cast<CXXRecordDecl>(decl)) {
    if (const CXXRecordDecl* pattern = record->getTemplateInstantiationPattern()) return pattern;
    if (const ClassTemplateDecl* described = record->getDescribedClassTemplate()) return written(described);
    const CXXRecordDecl* definition = record->getDefinition();
    return definition ? definition : record;
  }
  if (const auto* specialization = dyn_cast<VarTemplateSpecializationDecl>(decl))
    return written(specialization->getSpecializedTemplate());
  if (const auto* variable = dyn_cast<VarDecl>(decl)) {
    if (const VarDecl* pattern = variable->getTemplateInstantiationPattern()) return pattern;
    if (const VarTemplateDecl* described = variable->getDescribedVarTemplate()) return written(described);
    return variable;
  }
  return decl;
}

const Expr* as_written(const Expr* expression) {
  for (;;) {
    if (const auto* cast = dyn_cast<ImplicitCastExpr>(expression)) {
      expression = cast->getSubExpr();
    } else if (const auto* parentheses = dyn_cast<ParenExpr>(expression)) {
      expression = parentheses->getSubExpr();
    } else if (const auto* constant = dyn_cast<ConstantExpr>(expression)) {
      expression = constant->getSubExpr();
    } else {
      return expression;
    }
  }
}

namespace {

// Visits the bodies, initializers and types of everything that it finds, as instantiated.
class Reacher : public Visitor {
 public:
  Reacher(const Places& places, Bindings& bindings, int entry, const std::set<Place>& ignored)
      : places_(places), bindings_(bindings), entry_(entry), ignored_(ignored) {}

  void reach(Decl* decl) {
    if (auto* function = dyn_cast<FunctionDecl>(decl)) return reach_function(function);
    if (auto* record = dyn_cast<CXXRecordDecl>(decl)) return reach_record(record);
    if (auto* constant = dyn_cast<EnumConstantDecl>(decl))
      return reach(cast<EnumDecl>(constant->getDeclContext()));
    if (auto* variable = dyn_cast<VarDecl>(decl)) return reach_variable(variable);
    if (!isa<TypedefNameDecl, EnumDecl, TypeAliasTemplateDecl>(decl)) return;
    if (auto* record = dyn_cast<CXXRecordDecl>(decl->getDeclContext())) reach_record(record);
    if (add(decl)) walk(decl);
  }

  Instances take() { return std::move(instances_); }

  void on(DeclRefExpr* expression) {
    const auto place = places_.of(expression->getLocation());
    const FunctionDecl* function = expression->getDecl()->getAsFunction();
    if (place && places_.scope().is_entry(place->file) && function && function->getPrimaryTemplate()) {
      if (const auto called = places_.of(written(function->getPrimaryTemplate())->getLocation()))
        instances_.called.insert(*called);
    }
    reach(expression->getDecl());
  }
  void on(MemberExpr* expression) {
    ValueDecl* member = expression->getMemberDecl();
    if (isa<FunctionDecl, VarDecl>(member)) reach(member);
    reach_type(expression->getBase()->getType());
  }
  void on(CXXConstructExpr* expression) {
    reach(expression->getConstructor());
    reach_type(expression->getType());
  }
  void on(ValueDecl* declaration) { reach_type(declaration->getType()); }
  void on(Expr* expression) {
    if (isa<CallExpr, InitListExpr, CastExpr>(expression)) reach_type(expression->getType());
  }
  void on(TypedefTypeLoc location) { reach(location.getTypedefNameDecl()); }
  void on(RecordTypeLoc location) { reach(location.getDecl()); }
  void on(EnumTypeLoc location) { reach(location.getDecl()); }
  void on(TemplateSpecializationTypeLoc location) {
    const TemplateSpecializationType* type = location.getTypePtr();
    if (type->isTypeAlias()) {
      auto* alias = cast<TypeAliasTemplateDecl>(type->getTemplateName().getAsTemplateDecl());
      const TypeAliasTemplateDecl* pattern = written(alias);
      if (!type->isDependentType()) bind(pattern->getTemplateParameters(), type->template_arguments());
      reach(const_cast<TypeAliasTemplateDecl*>(alias));
      reach_aliases(type->getAliasedType());
    }
    reach_type(QualType(type, 0));
  }

 private:
  void see(Decl* declaration) override { look<ValueDecl>(*this, declaration); }
  void see(Stmt* statement) override {
    look<Expr, DeclRefExpr, MemberExpr, CXXConstructExpr>(*this, statement);
  }
  void see(TypeLoc type) override {
    look<TypedefTypeLoc, RecordTypeLoc, EnumTypeLoc, TemplateSpecializationTypeLoc>(*this, type);
  }
  bool enters(VarDecl* variable) override {
    const auto place = ignored_.empty() ? std::nullopt : places_.of(variable->getLocation());
    return !place || !ignored_.contains(*place);
  }

  bool add(Decl* decl) {
    if (!places_.contains(decl)) {
      instances_.outside.insert(places_.ast().path_of(decl->getLocation()));
      return false;
    }
    if (!seen_.insert(decl).second) return false;
    instances_.declarations.push_back(decl);
    for (const Decl* d = pattern_of(decl); d; d = enclosing(d)) {
      if (const auto place = places_.of_use(d->getLocation())) instances_.patterns.insert(*place);
    }
    return true;
  }

  static const Decl* enclosing(const Decl* decl) {
    const auto* record = dyn_cast<CXXRecordDecl>(decl->getDeclContext());
    return record ? pattern_of(record) : nullptr;
  }

  void reach_function(FunctionDecl* function) {
    if (FunctionDecl* definition = function->getDefinition()) function = definition;
    if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate()) {
      const bool is_lambda = isLambdaCallOperator(function);
      if (!is_lambda && places_.contains(primary) && function->getTemplateSpecializationArgs())
        bind(written(primary)->getTemplateParameters(), function->getTemplateSpecializationArgs()->asArray());
    }
    if (auto* method = dyn_cast<CXXMethodDecl>(function)) {
      if (!method->getParent()->isLambda()) reach_record(method->getParent());
    }
    if (add(function)) walk(function);
  }

  void reach_record(CXXRecordDecl* record) {
    if (record->isLambda()) return;
    if (CXXRecordDecl* definition = record->getDefinition()) record = definition;
    if (!add(record)) return;
    if (auto* specialization = dyn_cast<ClassTemplateSpecializationDecl>(record)) {
      bind(written(specialization->getSpecializedTemplate())->getTemplateParameters(),
           specialization->getTemplateArgs().asArray());
    }
    if (auto* outer = dyn_cast<CXXRecordDecl>(record->getDeclContext())) reach_record(outer);
    if (!record->isCompleteDefinition()) return;
    for (const CXXBaseSpecifier& base : record->bases()) reach_type(base.getType());
    for (FieldDecl* field : record->fields()) walk(field);
  }

  void reach_variable(VarDecl* variable) {
    if (variable->isLocalVarDeclOrParm()) {
      if (const auto place = places_.of(variable->getLocation())) instances_.patterns.insert(*place);
      return;
    }
    if (VarDecl* definition = variable->getDefinition()) variable = definition;
    if (auto* specialization = dyn_cast<VarTemplateSpecializationDecl>(variable)) {
      if (places_.contains(variable))
        bind(written(specialization->getSpecializedTemplate())->getTemplateParameters(),
             specialization->getTemplateArgs().asArray());
    }
    if (!add(variable)) return;
    walk(variable);
    if (isa<VarTemplateSpecializationDecl>(variable)) walk(variable->getInit());
  }

  // An alias may stand for another alias.
  void reach_aliases(QualType type) {
    for (QualType next; !type->isDependentType(); type = next) {
      if (const auto* alias = dyn_cast<TypedefType>(type)) reach(alias->getDecl());
      next = type.getSingleStepDesugaredType(places_.ast().context());
      if (next == type) break;
    }
  }

  void reach_type(QualType type) {
    if (type.isNull() || type->isDependentType()) return;
    type = type.getCanonicalType();
    while (!type->getPointeeType().isNull() || type->isArrayType()) {
      type = type->isArrayType() ? QualType(type->getBaseElementTypeUnsafe(), 0) : type->getPointeeType();
    }
    if (CXXRecordDecl* record = type->getAsCXXRecordDecl()) reach_record(record);
    if (const auto* enumeration = type->getAs<EnumType>()) reach(enumeration->getDecl());
  }

  void bind(const TemplateParameterList* parameters, llvm::ArrayRef<TemplateArgument> arguments) {
    for (unsigned i = 0; i < parameters->size(); ++i) {
      const auto place = places_.of(parameters->getParam(i)->getLocation());
      if (!place) continue;
      if (i >= arguments.size()) continue;
      const TemplateArgument& argument = arguments[i];
      if (argument.isDependent()) continue;
      if (parameters->getParam(i)->isTemplateParameterPack() ||
          argument.getKind() == TemplateArgument::Pack || is_unnamed(argument)) {
        bindings_.keep(*place);
      } else {
        bindings_.see(*place, places_.of(parameters->getParam(0)->getLocation()).value_or(*place),
                      value_of(argument), kind_of(argument), entry_);
      }
    }
  }

  // Lambdas, and what an entry declares, which stands behind the templates.
  bool is_unnamed(const TemplateArgument& argument) const {
    if (argument.getKind() != TemplateArgument::Type) return false;
    const CXXRecordDecl* record = argument.getAsType().getNonReferenceType()->getAsCXXRecordDecl();
    if (!record || record->isLambda()) return record != nullptr;
    const auto place = places_.of(record->getLocation());
    return place && places_.scope().is_entry(place->file);
  }

  std::string kind_of(const TemplateArgument& argument) const {
    if (argument.getKind() == TemplateArgument::Declaration)
      return argument.getParamTypeForDecl().getCanonicalType().getAsString();
    if (argument.getKind() != TemplateArgument::Type) return Bindings::kNumber;
    const auto* instance =
        dyn_cast_or_null<ClassTemplateSpecializationDecl>(argument.getAsType()->getAsCXXRecordDecl());
    return instance && places_.contains(instance->getSpecializedTemplate())
               ? instance->getSpecializedTemplate()->getQualifiedNameAsString()
               : "";
  }

  std::string value_of(const TemplateArgument& argument) const {
    if (argument.getKind() == TemplateArgument::Type)
      return argument.getAsType().getCanonicalType().getAsString(places_.ast().context().getPrintingPolicy());
    if (argument.getKind() == TemplateArgument::Expression) {
      Expr::EvalResult result;
      if (argument.getAsExpr()->EvaluateAsRValue(result, places_.ast().context()))
        return result.Val.getAsString(places_.ast().context(), argument.getAsExpr()->getType());
    }
    if (argument.getKind() == TemplateArgument::Integral) return llvm::toString(argument.getAsIntegral(), 10);
    std::string text;
    llvm::raw_string_ostream out(text);
    argument.print(places_.ast().context().getPrintingPolicy(), out, false);
    return text;
  }

  const Places& places_;
  Bindings& bindings_;
  const int entry_;
  const std::set<Place>& ignored_;
  Instances instances_;
  std::set<const Decl*> seen_;
};

void reach_roots(Reacher& reacher, const std::function<bool(const Decl*)>& is_root, DeclContext* context) {
  for (Decl* decl : context->decls()) {
    if (isa<NamespaceDecl, LinkageSpecDecl>(decl)) {
      reach_roots(reacher, is_root, cast<DeclContext>(decl));
    } else if (is_root(decl)) {
      reacher.reach(decl);
    }
  }
}

}  // namespace

Instances instances_of(const Places& places, const std::function<bool(const Decl*)>& is_root,
                       Bindings& bindings, int entry, const std::set<Place>& ignored) {
  Reacher reacher(places, bindings, entry, ignored);
  reach_roots(reacher, is_root, places.ast().context().getTranslationUnitDecl());
  return reacher.take();
}

}  // namespace hydrac::specialize
