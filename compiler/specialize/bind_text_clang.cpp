#include "specialize/bind_text.h"

#include <clang/AST/ASTLambda.h>
#include <llvm/ADT/StringExtras.h>

#include "specialize/constants.h"
#include "specialize/edits.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// A redeclaration's parameters have places of their own.
const NamedDecl* written_parameter(const NamedDecl* parameter) {
  if (const auto* record = dyn_cast<CXXRecordDecl>(parameter->getDeclContext())) {
    const ClassTemplateDecl* described = record->getDescribedClassTemplate();
    if (!described) return parameter;
    // An alias template's parameters lie in the class around it.
    const TemplateParameterList& parameters = *described->getTemplateParameters();
    const auto found = llvm::find(parameters, parameter);
    return found == parameters.end()
               ? parameter
               : written(described)->getTemplateParameters()->getParam(found - parameters.begin());
  }
  const auto* constant = dyn_cast<NonTypeTemplateParmDecl>(parameter);
  const auto* function = dyn_cast<FunctionDecl>(parameter->getDeclContext());
  const FunctionTemplateDecl* described = function ? function->getDescribedFunctionTemplate() : nullptr;
  if (!constant || !described || isLambdaCallOperator(function)) return parameter;
  return written(described)->getTemplateParameters()->getParam(constant->getIndex());
}

}  // namespace

bool BoundText::bound(const NamedDecl* parameter) const {
  parameter = written_parameter(parameter);
  const auto place = places_.of(parameter->getLocation());
  return place && bindings_.bound(*place);
}

void BoundText::enter(const FunctionTemplateDecl* function) {
  keeps_types_ =
      function && llvm::any_of(*function->getTemplateParameters(), [&](const NamedDecl* parameter) {
        return isa<TemplateTypeParmDecl>(parameter) && !bound(parameter);
      });
}

// ---- constants

// An object whose members are known: a template argument, or a constexpr variable that a template declares.
bool BoundText::is_constant_object(const Expr* expression) const {
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
  return place && !places_.scope().is_entry(place->file) &&
         (variable->isLocalVarDecl() || variable->isStaticDataMember());
}

// "192", "true", "MatmulSchedule::persistent".
static std::string text_of(const llvm::APSInt& value, QualType type) {
  if (type->isBooleanType()) return value == 0 ? "false" : "true";
  if (const auto* enumeration = type->getAs<EnumType>()) {
    for (const EnumConstantDecl* constant : enumeration->getDecl()->enumerators()) {
      if (constant->getInitVal() == value)
        return enumeration->getDecl()->getNameAsString() + "::" + constant->getNameAsString();
    }
  }
  return llvm::toString(value, 10);
}

std::optional<std::string> BoundText::value_of(const Expr* expression) const {
  if (expression->isValueDependent() || !expression->getType()->isIntegralOrEnumerationType())
    return std::nullopt;
  Expr::EvalResult result;
  if (!expression->EvaluateAsRValue(result, context_) || result.HasSideEffects || !result.Val.isInt())
    return std::nullopt;
  return text_of(result.Val.getInt(), expression->getType());
}

std::string BoundText::comment_behind(const Decl* decl) const {
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

// True for an instance of a class that stays a template, of types or also of numbers.
bool BoundText::stays_template(const ClassTemplateSpecializationDecl* instance, bool with_numbers) const {
  return llvm::any_of(*written(instance->getSpecializedTemplate())->getTemplateParameters(),
                      [&](const NamedDecl* parameter) {
                        return !bound(parameter) && (with_numbers || isa<TemplateTypeParmDecl>(parameter));
                      });
}

// True if the instances of a class or function that stays a template disagree about what an expression names,
// even if only one of them reaches it.
bool BoundText::varies(const Expr* expression) const {
  expression = as_written(expression);
  if (const auto* call = dyn_cast<CXXMemberCallExpr>(expression))
    return varies(call->getImplicitObjectArgument());
  if (const auto* member = dyn_cast<MemberExpr>(expression)) return varies(member->getBase());
  const auto* reference = dyn_cast<DeclRefExpr>(expression);
  const auto* variable = reference ? dyn_cast<VarDecl>(reference->getDecl()) : nullptr;
  const auto* instance =
      variable ? dyn_cast<ClassTemplateSpecializationDecl>(variable->getDeclContext()) : nullptr;
  if (!instance || !variable->isConstexpr() || !(keeps_types_ || stays_template(instance, true)))
    return false;
  const auto profile_of = [](const VarDecl* constant) {
    llvm::FoldingSetNodeID profile;
    constant->evaluateValue()->Profile(profile);
    return profile;
  };
  const llvm::FoldingSetNodeID value = profile_of(variable);
  const auto instances = instance->getSpecializedTemplate()->specializations();
  return llvm::any_of(instances, [&](const ClassTemplateSpecializationDecl* other) {
    const auto* same = other->lookup(variable->getDeclName()).find_first<VarDecl>();
    return same && same->hasInit() && profile_of(same) != value;  // without: nothing names it
  });
}

// Text for an expression that is the name of one bound value.
std::optional<std::string> BoundText::constant(const Expr* expression, const std::string& comment) const {
  if (varies(expression)) return std::nullopt;
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
  if (!value) return object(expression);
  const auto* named = cast<NamedDecl>(source);
  const QualType type = expression->getType();
  if (type->isBooleanType() || type->isEnumeralType() || named->getName().size() <= 1) return value;
  if (const auto* context = dyn_cast<NamedDecl>(source->getDeclContext())) owner = context->getNameAsString();
  const std::string own = comment_behind(source);
  return mark_of({named->getNameAsString(), owner,
                  type.getUnqualifiedType().getAsString(context_.getPrintingPolicy()), *value,
                  own.empty() ? comment : own});
}

// "MatmulTile{MatmulSchedule::persistent, 192, 2, 4, 2}" for the use of a parameter that is an object of
// numbers.
std::optional<std::string> BoundText::object(const Expr* expression) const {
  const auto* parameter = dyn_cast<SubstNonTypeTemplateParmExpr>(expression);
  const auto* reference =
      parameter ? dyn_cast<DeclRefExpr>(parameter->getReplacement()->IgnoreImpCasts()) : nullptr;
  const auto* object = reference ? dyn_cast<TemplateParamObjectDecl>(reference->getDecl()) : nullptr;
  return object ? members_of(object) : std::nullopt;
}

std::optional<std::string> BoundText::members_of(const TemplateParamObjectDecl* object) const {
  const auto name = type(object->getType().getUnqualifiedType());
  if (!name || !object->getValue().isStruct() || object->getValue().getStructNumBases() > 0)
    return std::nullopt;
  std::string members;
  for (const FieldDecl* field : object->getType()->getAsRecordDecl()->fields()) {
    const APValue& member = object->getValue().getStructField(field->getFieldIndex());
    if (!member.isInt()) return std::nullopt;
    members += (members.empty() ? "" : ", ") + text_of(member.getInt(), field->getType());
  }
  return *name + "{" + members + "}";
}

// A variable that only gives another name to a number.
std::optional<std::string> BoundText::initial_constant(const VarDecl* variable) const {
  if (!variable->isLocalVarDecl() && !variable->isStaticDataMember()) return std::nullopt;
  const auto place = places_.of(variable->getLocation());
  if (!place || places_.scope().is_entry(place->file)) return std::nullopt;
  const Expr* initial = variable->getAnyInitializer();
  return initial && !variable->getType()->isRecordType()
             ? constant(as_written(initial), comment_behind(variable))
             : std::nullopt;
}

// Arithmetic of numbers and of parameters that have no telling name.
bool BoundText::folds(const BinaryOperator* operation) const {
  bool has_parameter = false;
  return is_literal(operation, has_parameter) && has_parameter && value_of(operation);
}
bool BoundText::is_literal(const Expr* expression, bool& has_parameter) const {
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

// ---- types

bool BoundText::stays_dependent(QualType type) const {
  if (const auto* parameter = type->getAs<SubstTemplateTypeParmType>())
    return !bound(parameter->getReplacedParameter());
  if (!type->getPointeeType().isNull()) type = type->getPointeeType();
  const auto* instance = dyn_cast_or_null<ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
  return instance && stays_template(instance, false);
}

// The name of a type in specialized code; nullopt if it has none there.
std::optional<std::string> BoundText::type(QualType type) const {
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
  if (const auto place = places_.of(tag->getLocation()); place && places_.scope().is_entry(place->file))
    return std::nullopt;
  std::string name = tag->getNameAsString();
  if (const auto* specialization = dyn_cast<ClassTemplateSpecializationDecl>(tag)) {
    const auto arguments = arguments_of(specialization);
    if (!arguments) return std::nullopt;
    name += *arguments;
  }
  for (const DeclContext* outer = tag->getDeclContext(); !outer->isTranslationUnit();
       outer = outer->getParent()) {
    if (const auto* record = dyn_cast<CXXRecordDecl>(outer)) {
      const auto outer_name = this->type(context_.getRecordType(record));
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

std::optional<std::string> BoundText::arguments_of(
    const ClassTemplateSpecializationDecl* specialization) const {
  const TemplateParameterList* parameters =
      written(specialization->getSpecializedTemplate())->getTemplateParameters();
  std::string list;
  for (unsigned i = 0; i < parameters->size(); ++i) {
    if (bound(parameters->getParam(i))) continue;
    const TemplateArgument& argument = specialization->getTemplateArgs()[i];
    std::string text;
    if (argument.getKind() == TemplateArgument::Type) {
      const auto name = this->type(argument.getAsType());
      if (!name) return std::nullopt;
      text = *name;
    } else if (argument.getKind() == TemplateArgument::Integral) {
      text = llvm::toString(argument.getAsIntegral(), 10);
    } else if (argument.getKind() == TemplateArgument::Declaration &&
               isa<TemplateParamObjectDecl>(argument.getAsDecl())) {
      const auto members = members_of(cast<TemplateParamObjectDecl>(argument.getAsDecl()));
      if (!members) return std::nullopt;
      text = *members;
    } else {
      return std::nullopt;
    }
    list += (list.empty() ? "" : ", ") + text;
  }
  return list.empty() ? "" : "<" + list + ">";
}

}  // namespace hydrac::specialize
