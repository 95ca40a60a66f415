#include <fmt/format.h>

#include <map>
#include <numeric>
#include <ranges>

#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::Expr;
using ir::ExprId;

std::string CudaBodyPrinter::c_type(int operand) const {
  return std::string(codegen::c_type(body_.operands[operand].dtype, kCudaDialect));
}

// Whether offsets in a tensor count as the flat index does, and begin with the thread's first element.
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

// Whether the text is inside a loop over the elements of a thread's vector.
bool CudaBodyPrinter::is_in_vector() const {
  return flat_space_ != ir::kRowSpace && variables_[body_.spaces[flat_space_].back()].ends_with(" + j");
}

// Whether the address is that of the thread's first element in a tensor which lies as the flat index counts.
bool CudaBodyPrinter::is_dense(const Address& at) const {
  return at.gathered.empty() && counts_as_flat_index(at.rows + at.columns) && !is_in_vector();
}

// "first + j" where that is the position's element.
std::string CudaBodyPrinter::position(const ir::Affine& position) const {
  if (!counts_as_flat_index(position)) return position_text(position);
  return is_in_vector() ? "first + j" : "first";
}

// Pointers to rows are declared once; what expressions or columns add stands where it is used.
std::string CudaBodyPrinter::pointer(int operand, const ir::Index& index) {
  const Address at = address(operand, index, text_);
  if (is_dense(at)) return operand_names_[operand] + " + first";
  const std::string columns = at.columns == ir::Affine{} ? "" : affine(operand, at.columns);
  const std::string rows = rows_text(operand, at.rows);
  std::string text = operand_names_[operand];
  auto append = [&](const std::string& more) {
    if (!more.empty()) text += " + " + more;
  };
  if (!rows.empty() && at.gathered.empty() && !at.columns.terms.empty()) {
    text = row_pointer(operand, rows);
  } else {
    append(at.gathered);
    append(rows);
  }
  append(columns);
  return text;
}

std::string CudaBodyPrinter::element(int operand, const ir::Index& index) {
  const std::string at = pointer(operand, index);
  const size_t name_end = at.find(" + ");
  if (name_end == std::string::npos) return at + "[0]";
  return fmt::format("{}[{}]", at.substr(0, name_end), at.substr(name_end + 3));
}

std::string CudaBodyPrinter::row_pointer(int operand, const std::string& rows) {
  auto [found, is_new] = row_pointers_.try_emplace({operand, rows});
  if (is_new) found->second = unique(operand_names_[operand] + "_row");
  return found->second;
}

std::string CudaBodyPrinter::widened(int operand, const std::string& text) const {
  return is_narrow_float(body_.operands[operand].dtype) ? fmt::format("to_float({})", text) : text;
}

std::string CudaBodyPrinter::narrowed(int operand, const std::string& text) const {
  const ir::DType dtype = body_.operands[operand].dtype;
  if (dtype == ir::DType::u8) return fmt::format("static_cast<{}>({})", c_type(operand), text);
  return is_narrow_float(dtype) ? fmt::format("from_float<{}>({})", to_string(dtype), text) : text;
}

std::string CudaBodyPrinter::load_text(const Expr& expr) {
  const auto id = static_cast<ExprId>(&expr - body_.exprs.data());
  const auto found = columns_.find(id);
  if (found == columns_.end()) return widened(expr.operand, element(expr.operand, expr.index));
  const ColumnLayout& layout = columns(deps_[id].space);
  std::string text = found->second.name;
  if (layout.chunks > 1) text += "[k]";
  if (found->second.access.kind != ColumnAccess::Kind::constant && layout.vector > 1) {
    // Words pay where a block walks many rows; for a block's one row the assembler for sm_80 spills with
    // them.
    const bool one_row = layout_.shape == CudaLayout::Shape::rows && !walks_rows_;
    if (!one_row && size_of(body_.operands[expr.operand].dtype) == 2)
      return fmt::format("element({}, {})", text, element_in(found->second.access));
    text += fmt::format(".at[{}]", element_in(found->second.access));
  }
  return widened(expr.operand, text);
}

}  // namespace hydrac::codegen
