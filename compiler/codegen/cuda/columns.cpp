// A thread's share of the columns: chunks of consecutive elements.
#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::Store;
using Kind = ColumnAccess::Kind;

ColumnAccess CudaBodyPrinter::access_of(ExprId load) const {
  const ir::Expr& expr = body_.exprs[load];
  return column_access(graph_, node_, expr.operand, expr.index, deps_[load].space, deps_);
}

ColumnAccess CudaBodyPrinter::access_of(const Store& store) const {
  return column_access(graph_, node_, store.operand, store.index, store.space, deps_);
}

Code CudaBodyPrinter::of_chunk(const Code& name, int space) const {
  return columns(space).chunks > 1 ? code("{}[k]", name) : name;
}

Code CudaBodyPrinter::per_element(const Code& name, int space) const {
  const Code chunk = of_chunk(name, space);
  return columns(space).vector > 1 ? code("{}[j]", chunk) : chunk;
}

Code CudaBodyPrinter::array_of(const Code& name, int space) const {
  Code array = name;
  if (columns(space).chunks > 1) array = code("{}[{}]", array, chunks(space));
  if (columns(space).vector > 1) array = code("{}[{}]", array, vector(space));
  return array;
}

Code CudaBodyPrinter::access_width(int space, int width) const {
  return width == columns(space).vector ? vector(space).code : Code(std::to_string(width));
}

Code CudaBodyPrinter::access_width(int space, const ColumnAccess& access) const {
  const int most = columns(space).vector * (access.kind == Kind::pairs ? 2 : 1);
  return access.width >= most ? elements(space, access) : Code(std::to_string(access.width));
}

Code CudaBodyPrinter::elements(int space, const ColumnAccess& access) const {
  return access.kind == Kind::pairs ? code("2 * {}", vector(space)) : vector(space).code;
}

std::string CudaBodyPrinter::element_in(const ColumnAccess& access) {
  if (access.kind != Kind::pairs) return "j";
  return access.parity == 0 ? "2 * j" : "2 * j + 1";
}

ir::Index CudaBodyPrinter::first_of_pair(ir::Index index, const ColumnAccess& access) {
  if (access.kind == Kind::pairs) index.back().affine.constant -= access.parity;
  return index;
}

bool CudaBodyPrinter::guards(int space) const {
  if (layout_.shape == CudaLayout::Shape::flat) return false;
  return !columns(space).covers_exactly(layout_.lanes * static_cast<int>(layout_.tiles));
}

// The number of a column among all of the space's.
Code CudaBodyPrinter::flat_column_of(int space) const {
  const std::vector<int>& variables = body_.spaces[space];
  return variables.size() == 1 ? variables_[variables[0]] : flat_columns_.at(space);
}

// The chunk's first column, and the variables of the space that it stands for.
void CudaBodyPrinter::print_columns_variables(int space) {
  const ColumnLayout& layout = columns(space);
  Code chunk = layout.chunks > 1 ? code("k * {} + lanes.lane", lanes()) : "lanes.lane";
  if (layout_.shape == CudaLayout::Shape::tiles && layout_.tiles > 1)
    chunk = code("tile * {} + lanes.lane", lanes());
  if (layout.vector > 1) chunk = code("{} * {}", parenthesized(chunk), vector(space));
  print_column_variables(space, sum_of(start_, chunk));
}

// A space of which a thread holds one chunk has the same column variables in every row.
void CudaBodyPrinter::declare_columns(int space) {
  if (layout_.shape == CudaLayout::Shape::flat || columns(space).chunks > 1 || columns(space).steps > 1)
    return;
  if (declared_spaces_.insert(space).second) print_columns_variables(space);
}

void CudaBodyPrinter::in_chunks(int space, const std::function<void()>& print) {
  const bool is_loop = columns(space).chunks > 1, declares = declares_columns(space);
  if (is_loop) {
    out_.line("#pragma unroll");
    out_.open_loop("int", "k", chunks(space).code);
  } else if (declares) {
    out_.open("");
  }
  if (declares) print_columns_variables(space);
  if (guards(space)) out_.open("if ({} < {})", flat_column_of(space), width_of(space));
  print();
  if (guards(space)) out_.close();
  if (is_loop || declares) out_.close();
}

bool CudaBodyPrinter::declares_columns(int space) const {
  return layout_.shape != CudaLayout::Shape::flat && !declared_spaces_.contains(space);
}

// True if names declared for a chunk go out of scope with it. Otherwise they stay taken to the row's end.
bool CudaBodyPrinter::has_scope(int space) const {
  return columns(space).chunks > 1 || declares_columns(space) || guards(space);
}

void CudaBodyPrinter::forget_values(int space, const std::vector<ExprId>& defined) {
  if (columns(space).vector > 1 || has_scope(space)) return forget(defined);
  for (ExprId id : defined) names_[id] = {};
}

// The elements of a chunk; the space's last variable becomes the element's column.
void CudaBodyPrinter::in_elements(int space, const std::function<void()>& print) {
  if (columns(space).vector == 1) return print();
  out_.line("#pragma unroll");
  out_.open_loop("int", "j", vector(space).code);
  element_variable_ = body_.spaces[space].back();
  Code& column = variables_[element_variable_];
  first_element_ = column;
  column = code(Precedence::sum, "{} + j", first_element_);
  print();
  column = first_element_;
  element_variable_ = -1;
  out_.close();
}

}  // namespace hydrac::codegen
