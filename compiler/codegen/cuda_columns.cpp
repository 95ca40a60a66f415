#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Kind = ColumnAccess::Kind;

namespace {

bool names_word(const std::string& text, const std::string& word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

}  // namespace

// ---- a thread's share of the columns: chunks of consecutive elements

std::string CudaBodyPrinter::per_element(const std::string& name, int space) const {
  return name + (columns(space).chunks > 1 ? "[k]" : "") + (columns(space).vector > 1 ? "[j]" : "");
}

std::string CudaBodyPrinter::array_of(const std::string& name, int space) const {
  std::string text = name;
  if (columns(space).chunks > 1) text += fmt::format("[{}]", columns(space).chunks);
  if (columns(space).vector > 1) text += fmt::format("[{}]", columns(space).vector);
  return text;
}

bool CudaBodyPrinter::guards(int space) const {
  if (layout_.shape == CudaLayout::Shape::flat) return false;
  return !columns(space).covers_exactly(layout_.lanes * static_cast<int>(layout_.tiles));
}

// The chunk's first column, and the other variables of the space.
void CudaBodyPrinter::print_columns_variables(int space) {
  const ColumnLayout& layout = columns(space);
  const std::vector<int>& variables = body_.spaces[space];
  std::string chunk = layout.chunks > 1 ? fmt::format("k * {} + lanes.lane", layout_.lanes) : "lanes.lane";
  if (layout_.shape == CudaLayout::Shape::tiles) chunk = fmt::format("tile * {} + lanes.lane", layout_.lanes);
  if (layout.vector > 1) chunk = fmt::format("{} * {}", parenthesized(chunk), layout.vector);
  if (!start_.empty()) chunk = fmt::format("{} + {}", start_, chunk);
  if (variables.size() == 1) {
    out_.line(fmt::format("const int {} = {};", variables_[variables[0]], chunk));
    return;
  }
  out_.line(fmt::format("const int column = {};", chunk));
  int64_t below = 1;
  for (size_t v = variables.size(); v-- > 0;) {
    const int64_t size = body_.variables[variables[v]].size;
    std::string value = below == 1 ? "column" : fmt::format("column / {}", below);
    if (v > 0) value += fmt::format(" % {}", size);
    out_.line(fmt::format("const int {} = {};", variables_[variables[v]], value));
    below *= size;
  }
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
    out_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", layout.chunks));
  } else if (declares_columns(space)) {
    out_.open("{");
  }
  outside_ = std::move(out_);
  out_ = Writer(outside_.indent());
  if (guards(space)) {
    const std::vector<int>& variables = body_.spaces[space];
    out_.open(fmt::format("if ({} < {}) {{", variables.size() == 1 ? variables_[variables[0]] : "column",
                          layout.width));
  }
}

void CudaBodyPrinter::close_chunks(int space) {
  if (guards(space)) out_.close();
  const std::string inside = out_.text();
  out_ = std::move(outside_);
  const std::vector<int>& variables = body_.spaces[space];
  const bool is_named =
      std::ranges::any_of(variables, [&](int v) { return names_word(inside, variables_[v]); });
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
  out_.open(fmt::format("for (int j = 0; j < {}; ++j) {{", columns(space).vector));
  std::string& column = variables_[body_.spaces[space].back()];
  column = fmt::format("({} + j)", column);
}

void CudaBodyPrinter::close_elements(int space) {
  if (columns(space).vector == 1) return;
  std::string& column = variables_[body_.spaces[space].back()];
  column = column.substr(1, column.size() - std::string(" + j)").size() - 1);
  out_.close();
}

// ---- one pass

// The column values that a pass handles: what it computes, and at the border what is at hand.
std::set<ExprId> CudaBodyPrinter::in_pass(const Loop& loop) const {
  return needed(loop, [&](ExprId id) { return !names_[id].empty(); });
}

void CudaBodyPrinter::print_loop(const Loop& loop) {
  const ColumnLayout& layout = columns(loop.space);
  const std::set<ExprId> ids = in_pass(loop);
  declare_reductions(loop);
  if (layout.steps > 1) {
    start_ = unique("start");
    const int step = layout_.lanes * layout.chunks * layout.vector;
    out_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2}) {{", start_, layout.width, step));
  }
  declare_columns(loop.space);
  std::set<ExprId> loads = ids;
  if (layout.steps == 1) loads.insert(reuse_.early.begin(), reuse_.early.end());
  print_loads(loop.space, loads);
  if (&loop == last_ahead_) fetch_next();
  if (layout.steps > 1) print_peaks(loop);
  declare_kept(loop.space, ids);
  print_compute(loop, ids);
  if (layout.steps > 1) {
    out_.close();
    taken_.erase(start_);
    start_.clear();
  }
  finish_reductions(loop);
  forget_loads(ids);
}

// Every load of a pass stands before everything the pass stores, and all of them are under way together.
void CudaBodyPrinter::print_loads(int space, const std::set<ExprId>& ids) {
  std::vector<ExprId> loads;
  for (ExprId id : ids) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op != ExprOp::load || deps_[id].space != space || columns_.contains(id)) continue;
    const ColumnAccess access = column_access(graph_, node_, expr.operand, expr.index, space, deps_);
    if (access.kind == Kind::gathered) continue;
    const bool is_array = access.kind != Kind::constant && columns(space).vector > 1;
    const std::string name = unique(operand_names_[expr.operand] + "_in");
    const std::string type = c_type(expr.operand);
    const std::string chunks = columns(space).chunks > 1 ? fmt::format("[{}]", columns(space).chunks) : "";
    out_.line(is_array ? fmt::format("Vector<{}, {}> {}{};", type, columns(space).vector, name, chunks)
                       : fmt::format("{} {}{};", type, name, chunks));
    columns_[id] = {name, access};
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
    out_.line(fmt::format("{} = {};", to, place_ahead(id)));
  } else if (load.access.kind == Kind::constant || layout.vector == 1) {
    out_.line(fmt::format("{} = {};", to, element(expr.operand, expr.index)));
  } else if (load.access.kind == Kind::consecutive) {
    const int width = std::min(load.access.width, layout.vector);
    out_.line(fmt::format("load_columns<{}>({}, {});", width, to, pointer(expr.operand, expr.index)));
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
    const std::string name = unique(wanted_name(id));
    out_.line(fmt::format("float {};", array_of(name, space)));
    names_[id] = per_element(name, space);
  }
}

std::map<int, std::string> CudaBodyPrinter::declare_outputs(const Loop& loop) {
  std::map<int, std::string> outputs;
  for (int s : loop.stores) {
    const Store& store = body_.stores[s];
    if (store.kind != StoreKind::store || columns(loop.space).vector == 1) continue;
    if (column_access(graph_, node_, store.operand, store.index, loop.space, deps_).kind != Kind::consecutive)
      continue;
    outputs[s] = unique(operand_names_[store.operand] + "_out");
    const ir::ExprType type = body_.exprs[store.value].type;
    out_.line(fmt::format("{} {}[{}];", codegen::c_type(type), outputs[s], columns(loop.space).vector));
  }
  return outputs;
}

void CudaBodyPrinter::print_compute(const Loop& loop, const std::set<ExprId>& ids) {
  open_chunks(loop.space);
  const std::map<int, std::string> outputs = declare_outputs(loop);
  open_elements(loop.space);
  std::vector<ExprId> defined;
  print_values(ids, defined);
  accumulate(loop);
  for (int s : loop.stores) {
    const Store& store = body_.stores[s];
    if (store.kind != StoreKind::store) {
      add_to_sum(s);
    } else if (outputs.contains(s)) {
      out_.line(fmt::format("{}[j] = {};", outputs.at(s), text_.of(store.value)));
    } else {
      out_.line(fmt::format("{} = {};", element(store.operand, store.index),
                            narrowed(store.operand, text_.of(store.value))));
    }
  }
  forget_values(loop.space, defined);
  close_elements(loop.space);
  print_outputs(loop, outputs);
  close_chunks(loop.space);
}

void CudaBodyPrinter::print_outputs(const Loop& loop, const std::map<int, std::string>& outputs) {
  for (const auto& [s, name] : outputs) {
    const Store& store = body_.stores[s];
    const ColumnAccess access = column_access(graph_, node_, store.operand, store.index, loop.space, deps_);
    out_.line(fmt::format("store_columns<{}>({}, {});", std::min(access.width, columns(loop.space).vector),
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
