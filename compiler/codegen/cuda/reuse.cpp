#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;

// The same for every row, and loaded once before the rows where a block walks many.
bool CudaBodyPrinter::is_invariant(ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  if (!walks_rows_ || expr.op != ExprOp::load || columns(deps_[id].space).steps > 1) return false;
  return std::ranges::none_of(expr.index, [&](const ir::IndexDim& dim) {
    return dim.gather >= 0 || std::ranges::any_of(dim.affine.terms, [&](const auto& term) {
             return term.first < body_.row_variables;
           });
  });
}

// How many loads and kept values a value must be computed from again where it is not kept.
int CudaBodyPrinter::sources_beneath(ExprId id, const CudaReuse& reuse) const {
  std::set<ExprId> seen;
  int sources = 0;
  std::function<void(ExprId)> visit = [&](ExprId at) {
    if (deps_[at].space == ir::kRowSpace || !seen.insert(at).second) return;
    if (reuse.values.contains(at)) {
      ++sources;
      return;
    }
    if (body_.exprs[at].op == ExprOp::load && !is_invariant(at)) ++sources;
    for (ExprId arg : body_.exprs[at].args) visit(arg);
  };
  visit(id);
  return sources;
}

// True if a load of a later pass is worth its registers while the row's threads wait for each other: tensors
// that differ from row to row come from DRAM.
bool CudaBodyPrinter::loads_early(ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  const ColumnLayout& layout = columns(deps_[id].space);
  const bool gathers =
      std::ranges::any_of(expr.index, [](const ir::IndexDim& dim) { return dim.gather >= 0; });
  const bool differs = std::ranges::any_of(expr.index, [&](const ir::IndexDim& dim) {
    return std::ranges::any_of(dim.affine.terms,
                               [&](const auto& term) { return term.first < body_.row_variables; });
  });
  constexpr int64_t most_bytes = 64;
  return differs && !gathers &&
         layout.chunks * layout.vector * size_of(body_.operands[expr.operand].dtype) <= most_bytes;
}

// A later pass over the same columns finds in registers what an earlier one has loaded or computed. A value
// that is one load and cheap arithmetic is computed again, because the load takes fewer registers than the
// value.
CudaReuse CudaBodyPrinter::plan_reuse() const {
  CudaReuse reuse;
  std::map<ExprId, int> first_stage;  // of values that an earlier pass computes
  std::set<int> seen;                 // spaces that had a pass
  for (size_t level = 0; level < stages_.size(); ++level) {
    for (const Loop& loop : stages_[level].loops) {
      if (columns(loop.space).steps > 1) continue;
      const auto at_hand = [&](ExprId id) {
        const auto found = first_stage.find(id);
        return found != first_stage.end() && found->second < static_cast<int>(level) &&
               (body_.exprs[id].op == ExprOp::load ||
                (body_.exprs[id].type == ir::ExprType::f32 && body_.exprs[id].op != ExprOp::constant &&
                 (reuse.values.contains(id) || has_expensive_part(id) || sources_beneath(id, reuse) > 1)));
      };
      const std::set<ExprId> computed = needed(loop, at_hand);
      auto note = [&](ExprId id) {
        if (deps_[id].space == ir::kRowSpace || !at_hand(id)) return;
        (body_.exprs[id].op == ExprOp::load ? reuse.loads : reuse.values).insert(id);
      };
      for (ExprId id : computed) {
        for (ExprId arg : body_.exprs[id].args) note(arg);
        const bool is_new = first_stage.try_emplace(id, static_cast<int>(level)).second;
        if (is_new && body_.exprs[id].op == ExprOp::load && seen.contains(loop.space) && loads_early(id)) {
          reuse.loads.insert(id);
          reuse.early.insert(id);
        }
      }
      seen.insert(loop.space);
      for (ExprId reduction : loop.reductions) note(body_.exprs[reduction].args[0]);
      for (int s : loop.stores) note(body_.stores[s].value);
    }
  }
  return reuse;
}

}  // namespace hydrac::codegen
