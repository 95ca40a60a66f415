#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;

// Conditions that compare the column with a value of the row, "v < kClasses" and "v == target", have the same
// answer for all columns of nearly every vector: yes for the first, no for the second. Walked rows test each
// vector first; code for such a plain vector evaluates no conditions. They were half of the instructions for
// a column.

// The argument of a condition that is the column, if the other one is a value of the row.
std::optional<int> CudaBodyPrinter::compared_column(ExprId condition, int space) const {
  const ir::Expr& expr = body_.exprs[condition];
  if (expr.op != ExprOp::less && expr.op != ExprOp::equal) return std::nullopt;
  const auto is_column = [&](ExprId id) {
    const ir::Expr& at = body_.exprs[id];
    if (at.op != ExprOp::position || body_.spaces[space].size() != 1) return false;
    const ir::Affine& affine = at.index[0].affine;
    return affine == ir::Affine::of(body_.spaces[space][0], 1);
  };
  for (int at : {0, 1}) {
    const bool is_understood = expr.op == ExprOp::equal || at == 0;
    if (is_understood && is_column(expr.args[at]) && deps_[expr.args[1 - at]].space == ir::kRowSpace)
      return at;
  }
  return std::nullopt;
}

std::vector<ExprId> CudaBodyPrinter::plain_conditions(int space, const std::set<ExprId>& ids) const {
  std::vector<ExprId> conditions;
  if (columns(space).steps == 1 || columns(space).vector == 1) return conditions;
  for (ExprId id : ids) {
    if (compared_column(id, space)) conditions.push_back(id);
  }
  return conditions;
}

// The row's value that a condition compares the column with; as an int if it was converted from one.
Code CudaBodyPrinter::compared_value(ExprId condition, int space) {
  ExprId value = body_.exprs[condition].args[1 - *compared_column(condition, space)];
  const ir::Expr& expr = body_.exprs[value];
  if (expr.op == ExprOp::convert && expr.type == ir::ExprType::i64 && names_[value].empty())
    value = expr.args[0];
  return parenthesized(text_.of(value));
}

// The elements of a vector, in code that is compiled twice where conditions may be plain.
void CudaBodyPrinter::in_plain_elements(int space, const std::set<ExprId>& ids,
                                        const std::function<void()>& print) {
  const std::vector<ExprId> conditions = plain_conditions(space, ids);
  if (conditions.empty()) return in_elements(space, print);
  plain_.insert(conditions.begin(), conditions.end());
  const Code& first = variables_[body_.spaces[space][0]];
  const Code end = code("{} + {}", first, vector(space));
  std::vector<Code> same;
  for (ExprId id : conditions) {
    const Code value = compared_value(id, space);
    if (body_.exprs[id].op == ExprOp::less) {
      same.push_back(code("{} <= {}", end, value));
    } else {
      const Code outside = code("{1} < {0} || {2} <= {1}", first, value, end);
      same.push_back(conditions.size() == 1 ? outside : code("({})", outside));
    }
  }
  out_.line("const bool is_plain = {};", joined(same, " && "));
  out_.open("specialize(is_plain, [&](auto plain)");
  in_elements(space, print);
  out_.close("});");
  plain_.clear();
}

// A condition within such code.
Code CudaBodyPrinter::plain_definition(ExprId condition) const {
  return code("{}{}", body_.exprs[condition].op == ExprOp::less ? "plain || " : "!plain && ",
              text_.definition(condition));
}

}  // namespace hydrac::codegen
