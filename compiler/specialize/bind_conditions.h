// Pruning of conditions that became constant, and of the text around them. Includes Clang's headers: see
// ast.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "specialize/edits.h"
#include "specialize/instances.h"

namespace hydrac::specialize {

class Conditions {
 public:
  explicit Conditions(const Places& places) : places_(places) {}

  // The function of these conditions, by its template's body: instances no longer have discarded branches.
  void enter(const clang::Stmt* body);

  // No value where it is not constant.
  std::optional<bool> value_of(const clang::Expr* condition) const;
  // Leaves of an if statement the branch that `value` takes, without braces where their names disturb nobody.
  std::vector<Edit> prune(const clang::IfStmt* statement, bool value) const;
  // Replaces `a && b` or `a || b` by its value, or drops a side that is constant and does not matter. No
  // edits if both sides matter; nullopt if it is not in the text.
  std::optional<std::vector<Edit>> fold(const clang::BinaryOperator* operation) const;
  std::optional<std::vector<Edit>> without_left(const clang::BinaryOperator* operation) const;
  std::optional<std::vector<Edit>> without_right(const clang::BinaryOperator* operation) const;
  // Leaves of `c ? a : b` the side that is taken; as above.
  std::optional<std::vector<Edit>> choose(const clang::ConditionalOperator* operation) const;
  // True if the side that is taken needs no parentheses anywhere. The condition must have a value.
  bool keeps_one_word(const clang::ConditionalOperator* operation) const;
  // True if `(a && b)` needs no parentheses once its constant side is dropped: the rest is no `&&` or `||`,
  // and is the operand of one.
  bool loses_parentheses(const clang::ParenExpr* expression, const clang::BinaryOperator* logical) const;

 private:
  const clang::CompoundStmt* left_of(const clang::Stmt* statement) const;
  std::size_t end_of(const clang::Stmt* statement) const;
  bool hides_names(const std::string& text, const clang::CompoundStmt* block, std::size_t begin,
                   std::size_t end) const;

  const Places& places_;
  std::map<Place, const clang::IfStmt*> written_;  // as the template has them
  std::size_t body_begin_ = 0, body_end_ = 0;      // of the function, in the text
};

}  // namespace hydrac::specialize
