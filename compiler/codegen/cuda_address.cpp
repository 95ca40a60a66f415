#include <fmt/format.h>

#include <map>

#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::Expr;
using ir::ExprId;

std::string CudaBodyPrinter::c_type(int operand) const {
  return std::string(codegen::c_type(body_.operands[operand].dtype, kCudaDialect));
}

// Whether the address is that of the thread's first element in a tensor which lies as the flat index counts.
bool CudaBodyPrinter::is_dense(const Address& at) const {
  if (!counts_elements_ || !at.gathered.empty() || at.columns.constant != 0) return false;
  std::map<int, int64_t> coefficients(at.rows.terms.begin(), at.rows.terms.end());
  coefficients.insert(at.columns.terms.begin(), at.columns.terms.end());
  int64_t below = 1;
  for (int v = static_cast<int>(body_.variables.size()); v-- > 0;) {
    const bool is_last = v + 1 == static_cast<int>(body_.variables.size());
    if (is_last && variables_[v].ends_with(" + j")) return false;
    if (body_.variables[v].size > 1 && (!coefficients.contains(v) || coefficients[v] != below)) return false;
    below *= body_.variables[v].size;
  }
  return true;
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
