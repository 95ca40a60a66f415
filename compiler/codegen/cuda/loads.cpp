// Loads of a pass, all of them before its first computation.
#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using Kind = ColumnAccess::Kind;

// True if one call moves the thread's chunks of a row; it finds them by the lane.
bool CudaBodyPrinter::moves_row(int space) const {
  const ColumnLayout& layout = columns(space);
  return layout_.shape == CudaLayout::Shape::rows && layout.chunks > 1 && layout.steps == 1 &&
         layout.vector > 1 && body_.spaces[space].size() == 1;
}

// The start of a row with contiguous columns: "x + r * C".
std::optional<Code> CudaBodyPrinter::row_start(int operand, const ir::Index& index) {
  const Address at = address(operand, index, text_);
  const bool follow =
      at.columns.constant == 0 && at.columns.terms.size() == 1 && at.columns.terms.begin()->second == 1;
  if (!follow) return std::nullopt;
  return sum_of(sum_of(operand_names_[operand], at.gathered), rows_offset(operand, at.rows));
}

Code CudaBodyPrinter::row_end(int space) const {
  return guards(space) ? code(", {}", width_of(space)) : Code();
}

std::string CudaBodyPrinter::narrower_access(const ColumnAccess& access, const ColumnLayout& layout) {
  const int elements = layout.vector * (access.kind == Kind::pairs ? 2 : 1);
  return access.width < elements ? fmt::format(", {}", access.width) : "";
}

// The one-line definition of what a pass loads; empty where it takes a loop or a condition.
Code CudaBodyPrinter::load_definition(int space, ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  const Columns& load = columns_[id];
  const ColumnLayout& layout = columns(space);
  const bool is_pairs = load.access.kind == Kind::pairs;
  if ((load.access.kind != Kind::consecutive && !is_pairs) || layout.vector == 1) return {};
  const std::string access = narrower_access(load.access, layout);
  const bool is_ahead = ahead_.contains(id);
  if (moves_row(space) && !is_ahead) {
    if (is_pairs) return {};
    const std::optional<Code> row = row_start(expr.operand, expr.index);
    if (!row) return {};
    return code("const auto {} = load_row<{}, {}{}>({}, lanes{});", load.name, chunks(space), vector(space),
                access, *row, row_end(space));
  }
  if (layout.chunks > 1 || layout.steps > 1 || guards(space) || declares_columns(space)) return {};
  if (is_ahead) return code("const auto {} = {};", load.name, place_ahead(id));
  return code("const auto {} = load_columns<{}{}>({});", load.name, elements(space, load.access), access,
              pointer(expr.operand, first_of_pair(expr.index, load.access)));
}

// Every load of a pass stands before everything the pass stores, and all of them are under way together.
void CudaBodyPrinter::print_loads(int space, const std::set<ExprId>& ids) {
  std::vector<ExprId> loads;
  for (ExprId id : ids) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op != ExprOp::load || deps_[id].space != space || columns_.contains(id)) continue;
    const ColumnAccess access = access_of(id);
    if (access.kind == Kind::gathered) continue;
    const std::string name = unique(operand_names_[expr.operand] + "_in");
    columns_[id] = {name, access};
    if (const Code definition = load_definition(space, id); !definition.empty()) {
      out_.line("{}", definition);
      continue;
    }
    const bool is_array = access.kind != Kind::constant && columns(space).vector > 1;
    const std::string type = c_type(expr.operand);
    out_.line("{} {}{};", is_array ? code("Vector<{}, {}>", type, elements(space, access)) : Code(type), name,
              columns(space).chunks > 1 ? code("[{}]", chunks(space)) : Code());
    loads.push_back(id);
  }
  if (loads.empty()) return;
  in_chunks(space, [&] {
    for (ExprId id : loads) print_load(space, id);
  });
}

void CudaBodyPrinter::print_load(int space, ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  const Columns& load = columns_[id];
  const Code to = of_chunk(load.name, space);
  if (ahead_.contains(id)) {
    const Code there = place_ahead(id);
    out_.line("{} = {};", to, steps_ahead_ == 0 ? there : where_ahead(id, there));
  } else if (load.access.kind == Kind::constant || columns(space).vector == 1) {
    out_.line("{} = {};", to, element(expr.operand, expr.index));
  } else if (load.access.kind == Kind::consecutive || load.access.kind == Kind::pairs) {
    out_.line("load_columns<{}>({}, {});", access_width(space, load.access), to,
              pointer(expr.operand, first_of_pair(expr.index, load.access)));
  } else {
    in_elements(space, [&] { out_.line("{}.at[j] = {};", to, element(expr.operand, expr.index)); });
  }
}

void CudaBodyPrinter::forget_loads(const std::set<ExprId>& ids) {
  for (ExprId id : ids) {
    const auto found = columns_.find(id);
    if (found == columns_.end() || reuse_.loads.contains(id) || is_invariant(id)) continue;
    // The array of a row that lies in registers stays in scope to the row's end, and so does its name.
    if (columns(deps_[id].space).steps > 1) taken_.erase(found->second.name.text);
    columns_.erase(found);
  }
}

}  // namespace hydrac::codegen
