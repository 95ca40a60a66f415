// Text of the values that a pass computes from its columns, and of the values that it stores and keeps.
#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::Store;
using ir::StoreKind;
using Kind = ColumnAccess::Kind;

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
    const ColumnAccess access = access_of(store);
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
    const ColumnAccess access = access_of(store);
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
      const std::vector<ExprId> shared = define_shared(loop.space, ids);
      std::set<ExprId> of_elements = ids;
      for (ExprId id : shared) of_elements.erase(id);
      in_plain_elements(loop.space, of_elements, [&] {
        std::vector<ExprId> defined;
        print_values(of_elements, defined);
        accumulate(loop);
        print_stores(loop, outputs);
        forget_values(loop.space, defined);
      });
      print_outputs(loop, outputs);
      if (has_scope(loop.space)) return forget(shared);
      for (ExprId id : shared) names_[id] = {};
    });
  }
  for (const auto& [s, statement] : kept_rows_) out_.line("{}", statement);
}

// Prints an element's stores and additions to sums: directly to memory, or into the vector that
// print_outputs() stores at once.
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
      const ColumnAccess access = access_of(store);
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
    const ColumnAccess access = access_of(store);
    if (access.kind == Kind::pairs && access.parity == 1) continue;  // with the other half
    out_.line("store_columns<{}>({}, {});", access_width(loop.space, access),
              pointer(store.operand, store.index), name);
    if (has_scope(loop.space)) taken_.erase(name);
  }
}

// Variables before the loop over a vector's elements, for values that do not depend on the element.
std::vector<ExprId> CudaBodyPrinter::define_shared(int space, const std::set<ExprId>& ids) {
  std::vector<ExprId> shared;
  if (columns(space).vector == 1 || space == ir::kRowSpace || body_.spaces[space].size() == 1) return shared;
  const std::vector<bool> varies = varying_with(body_.spaces[space].back());
  for (ExprId id : ids) {
    if (varies[id] || deps_[id].space != space || !names_[id].empty() || !deserves_name(id)) continue;
    define(id);
    shared.push_back(id);
  }
  return shared;
}

// The expressions that depend on a column variable other than through a reduction, or that are kept for each
// element.
std::vector<bool> CudaBodyPrinter::varying_with(int variable) const {
  std::vector<bool> varies;
  for (const ir::Expr& expr : body_.exprs) {
    bool does = reuse_.values.contains(static_cast<ExprId>(varies.size()));
    for (const ir::IndexDim& dim : expr.index) {
      for (const auto& term : dim.affine.terms) does |= term.first == variable;
      does |= dim.gather >= 0 && varies[dim.gather];
    }
    if (!is_reduction(expr.op))
      for (ExprId arg : expr.args) does |= varies[arg];
    varies.push_back(does);
  }
  return varies;
}

// Variables for the values that a pass uses more than once; values that a later pass reuses have variables
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
