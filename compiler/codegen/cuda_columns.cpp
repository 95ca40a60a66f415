#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::Store;
using ir::StoreKind;
using Kind = ColumnAccess::Kind;

// ---- a thread's share of the columns: chunks of consecutive elements

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
  return variables.size() == 1 ? variables_[variables[0]] : flat_column_;
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

// Whether what is declared for a chunk ends with it. Otherwise its names stay taken to the row's end.
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

// ---- what a pass loads

// Whether the thread's chunks of a row are moved by one call, which finds them by the lane.
bool CudaBodyPrinter::moves_row(int space) const {
  const ColumnLayout& layout = columns(space);
  return layout_.shape == CudaLayout::Shape::rows && layout.chunks > 1 && layout.steps == 1 &&
         layout.vector > 1 && body_.spaces[space].size() == 1;
}

// Where a row begins whose columns follow each other: "x + r * C".
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
    const ColumnAccess access = column_access(graph_, node_, expr.operand, expr.index, space, deps_);
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

void CudaBodyPrinter::declare_kept(int space, const std::set<ExprId>& ids) {
  for (ExprId id : ids) {
    if (!reuse_.values.contains(id)) continue;
    if (node_.matmul.value != ir::kNoValue) {
      names_[id] = kept_name(id);
      continue;
    }
    kept_arrays_[id] = unique(wanted_name(id));
    out_.line("float {};", array_of(kept_arrays_[id], space));
    names_[id] = per_element(kept_arrays_[id], space);
  }
}

// The array that already holds what a store writes, of all the thread's columns.
std::string CudaBodyPrinter::kept_row(int s) const {
  const Store& store = body_.stores[s];
  const auto kept = kept_arrays_.find(store.value);
  return moves_row(store.space) && kept != kept_arrays_.end() ? kept->second : "";
}

std::map<int, std::string> CudaBodyPrinter::declare_outputs(const Loop& loop) {
  std::map<int, std::string> outputs;
  for (int s : loop.stores) {
    const Store& store = body_.stores[s];
    if (store.kind != StoreKind::store || columns(loop.space).vector == 1) continue;
    const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
    if ((access.kind != Kind::consecutive && !half_of_pair(loop, s)) || kept_rows_.contains(s)) continue;
    if (const auto other = half_of_pair(loop, s); other && outputs.contains(*other)) {
      outputs[s] = outputs[*other];
      continue;
    }
    outputs[s] = unique(operand_names_[store.operand] + "_out");
    const ir::ExprType type = body_.exprs[store.value].type;
    out_.line("{} {}[{}];", codegen::c_type(type), outputs[s], elements(loop.space, access));
  }
  return outputs;
}

// The store of this pass to the other elements of the pairs that store `s` writes to.
std::optional<int> CudaBodyPrinter::half_of_pair(const Loop& loop, int s) const {
  const auto access_of = [&](const Store& store) {
    return column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
  };
  const Store& store = body_.stores[s];
  const ColumnAccess access = access_of(store);
  if (access.kind != Kind::pairs) return std::nullopt;
  for (int other : loop.stores) {
    const Store& candidate = body_.stores[other];
    if (other == s || candidate.operand != store.operand || candidate.kind != StoreKind::store) continue;
    const ColumnAccess its = access_of(candidate);
    if (its.kind == Kind::pairs && its.parity != access.parity &&
        first_of_pair(candidate.index, its) == first_of_pair(store.index, access))
      return other;
  }
  return std::nullopt;
}

// Stores of values that are kept anyway wait until the pass has found all of them.
void CudaBodyPrinter::find_kept_rows(const Loop& loop) {
  kept_rows_.clear();
  for (int s : loop.stores) {
    const Store& store = body_.stores[s];
    if (is_matmul(store.operand)) {  // it is stored as it came
      kept_rows_[s] =
          code("store({}, {});", pointer(store.operand, store.index), columns_.at(store.value).name);
      continue;
    }
    if (store.kind != StoreKind::store || kept_row(s).empty()) continue;
    const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
    if (access.kind != Kind::consecutive) continue;
    const std::optional<Code> row = row_start(store.operand, store.index);
    if (!row) continue;
    kept_rows_[s] = code("store_row<{}>({}, {}, lanes{});", access_width(loop.space, access), *row,
                         kept_row(s), row_end(loop.space));
  }
}

void CudaBodyPrinter::print_compute(const Loop& loop, const std::set<ExprId>& ids) {
  find_kept_rows(loop);
  const auto is_kept_matmul = [&](int s) { return is_matmul(body_.stores[s].operand); };
  if (!loop.reductions.empty() || !std::ranges::all_of(loop.stores, is_kept_matmul)) {
    in_chunks(loop.space, [&] {
      const std::map<int, std::string> outputs = declare_outputs(loop);
      in_plain_elements(loop.space, ids, [&] {
        std::vector<ExprId> defined;
        print_values(ids, defined);
        accumulate(loop);
        print_stores(loop, outputs);
        forget_values(loop.space, defined);
      });
      print_outputs(loop, outputs);
    });
  }
  for (const auto& [s, statement] : kept_rows_) out_.line("{}", statement);
}

// What is stored of an element, or added to a sum: at once, or in the vector that holds it.
void CudaBodyPrinter::print_stores(const Loop& loop, const std::map<int, std::string>& outputs) {
  for (int s : loop.stores) {
    const Store& store = body_.stores[s];
    if (store.kind == StoreKind::raise) {
      raise(s);
    } else if (is_sum(store.kind)) {
      add_to_sum(s);
    } else if (kept_rows_.contains(s)) {
      continue;
    } else if (outputs.contains(s)) {
      const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
      out_.line("{}[{}] = {};", outputs.at(s), element_in(access), text_.of(store.value));
    } else {
      out_.line("{} = {};", element(store.operand, store.index),
                narrowed(store.operand, text_.of(store.value)));
    }
  }
}

void CudaBodyPrinter::print_outputs(const Loop& loop, const std::map<int, std::string>& outputs) {
  for (const auto& [s, name] : outputs) {
    const Store& store = body_.stores[s];
    const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
    if (access.kind == Kind::pairs && access.parity == 1) continue;  // with the other half
    out_.line("store_columns<{}>({}, {});", access_width(loop.space, access),
              pointer(store.operand, store.index), name);
    if (has_scope(loop.space)) taken_.erase(name);
  }
}

// Variables for the values that a pass uses more than once; those that a later pass finds have theirs
// already.
void CudaBodyPrinter::print_values(const std::set<ExprId>& ids, std::vector<ExprId>& defined) {
  for (ExprId id : ids) {
    if (!names_[id].empty()) {
      out_.line("{} = {};", names_[id], definition(id));
    } else if (deserves_name(id)) {
      define(id);
      defined.push_back(id);
    }
  }
}

}  // namespace hydrac::codegen
