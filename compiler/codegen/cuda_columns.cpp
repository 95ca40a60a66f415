#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Kind = ColumnAccess::Kind;

// ---- a thread's share of the columns: chunks of consecutive elements

std::string CudaBodyPrinter::per_element(const std::string& name, int space) const {
  return name + (columns(space).chunks > 1 ? "[k]" : "") + (columns(space).vector > 1 ? "[j]" : "");
}

std::string CudaBodyPrinter::array_of(const std::string& name, int space) const {
  std::string text = name;
  if (columns(space).chunks > 1) text += fmt::format("[{}]", chunks(space).text);
  if (columns(space).vector > 1) text += fmt::format("[{}]", vector(space).text);
  return text;
}

std::string CudaBodyPrinter::access_text(int space, int width) const {
  return width == columns(space).vector ? vector(space).text : std::to_string(width);
}

std::string CudaBodyPrinter::access_text(int space, const ColumnAccess& access) const {
  const int elements = columns(space).vector * (access.kind == Kind::pairs ? 2 : 1);
  return access.width >= elements ? elements_text(space, access) : std::to_string(access.width);
}

std::string CudaBodyPrinter::elements_text(int space, const ColumnAccess& access) const {
  return access.kind == Kind::pairs ? "2 * " + vector(space).text : vector(space).text;
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

// The chunk's first column, and the other variables of the space.
void CudaBodyPrinter::print_columns_variables(int space) {
  const ColumnLayout& layout = columns(space);
  std::string chunk = layout.chunks > 1 ? "k * kLanes + lanes.lane" : "lanes.lane";
  if (layout_.shape == CudaLayout::Shape::tiles && layout_.tiles > 1) chunk = "tile * kLanes + lanes.lane";
  if (layout.vector > 1) chunk = fmt::format("{} * {}", parenthesized(chunk), vector(space).text);
  if (!start_.empty()) chunk = fmt::format("{} + {}", start_, chunk);
  std::string named = "column";
  if (names_variables(space)) {
    for (int variable : body_.spaces[space]) named += " " + variables_[variable];
  }
  print_column_variables(space, chunk, named);
}

// Whether the text of a space needs more than its flat column.
bool CudaBodyPrinter::names_variables(int space) const {
  if (body_.spaces[space].size() == 1) return true;
  const auto names_some = [&](const ir::Affine& affine) {
    ir::Affine columns{affine.constant, {}};
    for (const auto& term : affine.terms) {
      if (std::ranges::count(body_.spaces[space], term.first) > 0) columns.terms.push_back(term);
    }
    return !columns.terms.empty() && !is_flat_column(columns);
  };
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Expr& expr = body_.exprs[i];
    if (!live_[i]) continue;
    if (expr.op == ExprOp::load && names_some(address(expr.operand, expr.index, text_).columns)) return true;
    if (expr.op == ExprOp::position && names_some(expr.index[0].affine)) return true;
  }
  return std::ranges::any_of(body_.stores, [&](const Store& store) {
    return names_some(address(store.operand, store.index, text_).columns);
  });
}

// A space of which a thread holds one chunk has the same column variables in every row.
void CudaBodyPrinter::declare_columns(int space) {
  if (layout_.shape == CudaLayout::Shape::flat || columns(space).chunks > 1 || columns(space).steps > 1)
    return;
  if (declared_spaces_.insert(space).second) print_columns_variables(space);
}

// What stands inside is written first: the column variables are declared where it names them.
void CudaBodyPrinter::open_chunks(int space) {
  const ColumnLayout& layout = columns(space);
  if (layout.chunks > 1) {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", chunks(space).text));
  } else if (declares_columns(space)) {
    out_.open("{");
  }
  outside_ = std::move(out_);
  out_ = Writer(outside_.indent());
  if (guards(space)) {
    const std::vector<int>& variables = body_.spaces[space];
    out_.open(fmt::format("if ({} < {}) {{", variables.size() == 1 ? variables_[variables[0]] : "column",
                          width_of(space).text));
  }
}

void CudaBodyPrinter::close_chunks(int space) {
  if (guards(space)) out_.close();
  const std::string inside = out_.text();
  out_ = std::move(outside_);
  const std::vector<int>& variables = body_.spaces[space];
  const bool is_named = ir::has_word(inside, "column") || std::ranges::any_of(variables, [&](int v) {
                          return ir::has_word(inside, variables_[v]);
                        });
  if (declares_columns(space) && is_named) print_columns_variables(space);
  out_.append(inside);
  if (columns(space).chunks > 1 || declares_columns(space)) out_.close();
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
  for (ExprId id : defined) names_[id].clear();
}

// The elements of a chunk; the space's last variable becomes the element's column.
void CudaBodyPrinter::open_elements(int space) {
  if (columns(space).vector == 1) return;
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int j = 0; j < {}; ++j) {{", vector(space).text));
  std::string& column = variables_[body_.spaces[space].back()];
  column += " + j";
}

void CudaBodyPrinter::close_elements(int space) {
  if (columns(space).vector == 1) return;
  std::string& column = variables_[body_.spaces[space].back()];
  column = column.substr(0, column.size() - std::string(" + j").size());
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
std::optional<std::string> CudaBodyPrinter::row_start(int operand, const ir::Index& index) {
  const Address at = address(operand, index, text_);
  const bool follow =
      at.columns.constant == 0 && at.columns.terms.size() == 1 && at.columns.terms.begin()->second == 1;
  if (!follow) return std::nullopt;
  std::string text = operand_names_[operand];
  for (const std::string& part : {at.gathered, rows_text(operand, at.rows)}) {
    if (!part.empty()) text += " + " + part;
  }
  return text;
}

std::string CudaBodyPrinter::row_end(int space) const {
  return guards(space) ? ", " + width_of(space).text : "";
}

std::string CudaBodyPrinter::narrower_access(const ColumnAccess& access, const ColumnLayout& layout) {
  const int elements = layout.vector * (access.kind == Kind::pairs ? 2 : 1);
  return access.width < elements ? fmt::format(", {}", access.width) : "";
}

// The one-line definition of what a pass loads; empty where it takes a loop or a condition.
std::string CudaBodyPrinter::load_definition(int space, ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  const Columns& load = columns_[id];
  const ColumnLayout& layout = columns(space);
  const bool is_pairs = load.access.kind == Kind::pairs;
  if ((load.access.kind != Kind::consecutive && !is_pairs) || layout.vector == 1) return "";
  const std::string access = narrower_access(load.access, layout);
  const auto ahead = ahead_.find(id);
  if (moves_row(space) && ahead == ahead_.end()) {
    if (is_pairs) return "";
    const std::optional<std::string> row = row_start(expr.operand, expr.index);
    if (!row) return "";
    return fmt::format("const auto {} = load_row<{}, {}{}>({}, lanes{});", load.name, chunks(space).text,
                       vector(space).text, access, *row, row_end(space));
  }
  if (layout.chunks > 1 || layout.steps > 1 || guards(space) || declares_columns(space)) return "";
  if (ahead != ahead_.end()) return fmt::format("const auto {} = {};", load.name, place_ahead(id));
  return fmt::format("const auto {} = load_columns<{}{}>({});", load.name, elements_text(space, load.access),
                     access, pointer(expr.operand, first_of_pair(expr.index, load.access)));
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
    if (const std::string definition = load_definition(space, id); !definition.empty()) {
      out_.line(definition);
      continue;
    }
    const bool is_array = access.kind != Kind::constant && columns(space).vector > 1;
    const std::string type = c_type(expr.operand);
    const std::string array = columns(space).chunks > 1 ? fmt::format("[{}]", chunks(space).text) : "";
    out_.line(is_array ? fmt::format("Vector<{}, {}> {}{};", type, elements_text(space, access), name, array)
                       : fmt::format("{} {}{};", type, name, array));
    loads.push_back(id);
  }
  if (loads.empty()) return;
  open_chunks(space);
  for (ExprId id : loads) print_load(space, id);
  close_chunks(space);
}

void CudaBodyPrinter::print_load(int space, ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  const Columns& load = columns_[id];
  const ColumnLayout& layout = columns(space);
  const std::string to = load.name + (layout.chunks > 1 ? "[k]" : "");
  if (const auto ahead = ahead_.find(id); ahead != ahead_.end()) {
    const std::string there = place_ahead(id);
    out_.line(fmt::format("{} = {};", to, steps_ahead_ == 0 ? there : where_ahead(id, there)));
  } else if (load.access.kind == Kind::constant || layout.vector == 1) {
    out_.line(fmt::format("{} = {};", to, element(expr.operand, expr.index)));
  } else if (load.access.kind == Kind::consecutive || load.access.kind == Kind::pairs) {
    out_.line(fmt::format("load_columns<{}>({}, {});", access_text(space, load.access), to,
                          pointer(expr.operand, first_of_pair(expr.index, load.access))));
  } else {
    open_elements(space);
    out_.line(fmt::format("{}.at[j] = {};", to, element(expr.operand, expr.index)));
    close_elements(space);
  }
}

void CudaBodyPrinter::forget_loads(const std::set<ExprId>& ids) {
  for (ExprId id : ids) {
    const auto found = columns_.find(id);
    if (found == columns_.end() || reuse_.loads.contains(id) || is_invariant(id)) continue;
    // The array of a row that lies in registers stays in scope to the row's end, and so does its name.
    if (columns(deps_[id].space).steps > 1) taken_.erase(found->second.name);
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
    const std::string name = unique(wanted_name(id));
    out_.line(fmt::format("float {};", array_of(name, space)));
    names_[id] = per_element(name, space);
  }
}

// The array that already holds what a store writes, of all the thread's columns.
std::string CudaBodyPrinter::kept_row(int s) const {
  const Store& store = body_.stores[s];
  const std::string& name = names_[store.value];
  if (!moves_row(store.space) || !reuse_.values.contains(store.value)) return "";
  return name.substr(0, name.find('['));
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
    out_.line(
        fmt::format("{} {}[{}];", codegen::c_type(type), outputs[s], elements_text(loop.space, access)));
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
      const std::string& name = columns_.at(store.value).name;
      kept_rows_[s] = fmt::format("store({}, {});", pointer(store.operand, store.index), name);
      continue;
    }
    if (store.kind != StoreKind::store || kept_row(s).empty()) continue;
    const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
    if (access.kind != Kind::consecutive) continue;
    const std::optional<std::string> row = row_start(store.operand, store.index);
    if (!row) continue;
    kept_rows_[s] = fmt::format("store_row<{}>({}, {}, lanes{});", access_text(loop.space, access), *row,
                                kept_row(s), row_end(loop.space));
  }
}

void CudaBodyPrinter::print_compute(const Loop& loop, const std::set<ExprId>& ids) {
  find_kept_rows(loop);
  const auto is_kept_matmul = [&](int s) { return is_matmul(body_.stores[s].operand); };
  if (loop.reductions.empty() && std::ranges::all_of(loop.stores, is_kept_matmul)) {
    for (const auto& [s, statement] : kept_rows_) out_.line(statement);
    return;
  }
  open_chunks(loop.space);
  const std::map<int, std::string> outputs = declare_outputs(loop);
  open_plain_elements(loop.space, ids);
  std::vector<ExprId> defined;
  print_values(ids, defined);
  accumulate(loop);
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
      out_.line(fmt::format("{}[{}] = {};", outputs.at(s), element_in(access), text_.of(store.value)));
    } else {
      out_.line(fmt::format("{} = {};", element(store.operand, store.index),
                            narrowed(store.operand, text_.of(store.value))));
    }
  }
  forget_values(loop.space, defined);
  close_plain_elements(loop.space);
  print_outputs(loop, outputs);
  close_chunks(loop.space);
  for (const auto& [s, statement] : kept_rows_) out_.line(statement);
}

void CudaBodyPrinter::print_outputs(const Loop& loop, const std::map<int, std::string>& outputs) {
  for (const auto& [s, name] : outputs) {
    const Store& store = body_.stores[s];
    const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
    if (access.kind == Kind::pairs && access.parity == 1) continue;  // with the other half
    out_.line(fmt::format("store_columns<{}>({}, {});", access_text(loop.space, access),
                          pointer(store.operand, store.index), name));
    if (has_scope(loop.space)) taken_.erase(name);
  }
}

// Variables for the values that a pass uses more than once; those that a later pass finds have theirs
// already.
void CudaBodyPrinter::print_values(const std::set<ExprId>& ids, std::vector<ExprId>& defined) {
  for (ExprId id : ids) {
    if (!names_[id].empty()) {
      out_.line(fmt::format("{} = {};", names_[id], definition(id)));
    } else if (deserves_name(id)) {
      define(id);
      defined.push_back(id);
    }
  }
}

}  // namespace hydrac::codegen
