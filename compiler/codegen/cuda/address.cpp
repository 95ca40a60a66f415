#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::Expr;
using ir::ExprId;

// True if offsets in a tensor equal the flat index, starting at the thread's first element.
bool CudaBodyPrinter::counts_as_flat_index(const ir::Affine& offset) const {
  if (!counts_elements_ || offset.constant != 0) return false;
  std::vector<int> counted(static_cast<size_t>(body_.row_variables));
  std::iota(counted.begin(), counted.end(), 0);
  if (flat_space_ != ir::kRowSpace)
    counted.insert(counted.end(), body_.spaces[flat_space_].begin(), body_.spaces[flat_space_].end());
  std::map<int, int64_t> coefficients(offset.terms.begin(), offset.terms.end());
  int64_t below = 1;
  for (const int v : counted | std::views::reverse) {
    const int64_t size = body_.variables[v].size;
    if (size > 1 && (!coefficients.contains(v) || coefficients[v] != below)) return false;
    coefficients.erase(v);
    below *= size;
  }
  return coefficients.empty();
}

// True if the code is inside a loop over the elements of a thread's vector.
bool CudaBodyPrinter::is_in_vector() const {
  return flat_space_ != ir::kRowSpace && body_.spaces[flat_space_].back() == element_variable_;
}

// Offset of the thread's first element in a tensor whose layout is the flat index, after other terms are
// added.
Code CudaBodyPrinter::named_offset(const Address& at) const {
  ir::Affine flat = at.rows + at.columns;
  const int64_t constant = std::exchange(flat.constant, 0);
  if (is_in_vector() || !counts_as_flat_index(flat)) return {};
  const Code first = sum_of(at.gathered, named("first"));
  return constant == 0 ? first : sum_of(first, literal(constant).code);
}

// "first + j" where that is the position's element.
Code CudaBodyPrinter::position(const ir::Affine& position) const {
  if (!counts_as_flat_index(position)) return position_code(position);
  return is_in_vector() ? code("{} + j", named("first")) : named("first");
}

Code CudaBodyPrinter::widened(int operand, const Code& element) const {
  return is_narrow_float(body_.operands[operand].dtype) ? code("to_float({})", element) : element;
}

Code CudaBodyPrinter::narrowed(int operand, const Code& value) const {
  const ir::DType dtype = body_.operands[operand].dtype;
  if (dtype == ir::DType::u8) return code("static_cast<{}>({})", c_type(operand), value);
  return is_narrow_float(dtype) ? code("from_float<{}>({})", to_string(dtype), value) : value;
}

Code CudaBodyPrinter::load_code(const Expr& expr) {
  const auto id = static_cast<ExprId>(&expr - body_.exprs.data());
  const auto found = columns_.find(id);
  if (found == columns_.end()) return widened(expr.operand, element(expr.operand, expr.index));
  const auto& [name, access] = found->second;
  const int space = deps_[id].space;
  const Code chunk = of_chunk(name, space);
  if (access.kind == ColumnAccess::Kind::constant || columns(space).vector == 1)
    return widened(expr.operand, chunk);
  // Words pay where a block walks many rows; for a block's one row the assembler for sm_80 spills with them.
  const bool one_row = layout_.shape == CudaLayout::Shape::rows && !walks_rows_;
  if (!one_row && size_of(body_.operands[expr.operand].dtype) == 2)
    return code("element({}, {})", chunk, element_in(access));
  return widened(expr.operand, code("{}.at[{}]", chunk, element_in(access)));
}

}  // namespace hydrac::codegen
