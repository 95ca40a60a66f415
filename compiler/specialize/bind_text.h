// Text for constants and types in specialized code. Includes Clang's headers: see ast.h.
#pragma once
#include <optional>
#include <string>

#include "specialize/instances.h"

namespace hydrac::specialize {

class BoundText {
 public:
  // All of `bindings` must have been seen before.
  BoundText(const Places& places, const Bindings& bindings)
      : places_(places), context_(places.ast().context()), bindings_(bindings) {}

  // The class whose member is visited; a class declares its members itself. Null: none.
  void visit(const clang::DeclContext* record) { record_ = record; }
  // The function whose text is bound; null: none.
  void enter(const clang::FunctionTemplateDecl* function);

  bool bound(const clang::NamedDecl* parameter) const;
  // An integer, true or false, or an enumerator; no value where the expression is none that is known.
  std::optional<std::string> value_of(const clang::Expr* expression) const;
  // For an expression that names one bound value: its mark (constants.h), or the value if the name says
  // nothing. `comment`: used if the declaration has none.
  std::optional<std::string> constant(const clang::Expr* expression, const std::string& comment = "") const;
  // True if a value stands for arithmetic of numbers and of parameters that have no telling name.
  bool folds(const clang::BinaryOperator* operation) const;
  // True if a type in the text, or what it points to, goes on depending on a type parameter.
  bool stays_dependent(clang::QualType type) const;
  // The name of a type in specialized code; nullopt if it has none there.
  std::optional<std::string> type(clang::QualType type) const;

 private:
  bool is_constant_object(const clang::Expr* expression) const;
  std::string comment_behind(const clang::Decl* decl) const;
  std::optional<std::string> initial_constant(const clang::VarDecl* variable) const;
  bool stays_template(const clang::ClassTemplateSpecializationDecl* instance, bool with_numbers) const;
  bool varies(const clang::Expr* expression) const;
  std::optional<std::string> object(const clang::Expr* expression) const;
  std::optional<std::string> members_of(const clang::TemplateParamObjectDecl* object) const;
  bool is_literal(const clang::Expr* expression, bool& has_parameter) const;
  std::optional<std::string> arguments_of(const clang::ClassTemplateSpecializationDecl* specialization) const;

  const Places& places_;
  clang::ASTContext& context_;
  const Bindings& bindings_;
  const clang::DeclContext* record_ = nullptr;
  bool keeps_types_ = false;  // the function's text goes on depending on a type parameter
};

}  // namespace hydrac::specialize
