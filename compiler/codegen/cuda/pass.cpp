// One pass over the columns of a row, in registers or in steps.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::StoreKind;

// The column values that a pass handles: what it computes, and at the border what is at hand.
std::set<ExprId> CudaBodyPrinter::in_pass(const Loop& loop) const {
  return needed(loop, [&](ExprId id) { return !names_[id].empty(); });
}

// The comment of a pass, if a row takes several.
std::string CudaBodyPrinter::pass_comment(const Loop& loop, const std::set<ExprId>& ids) const {
  if (loops().size() < 2) return "";
  std::set<std::string> loads;
  std::vector<std::string> reduced, stored, summed, raised, parts;
  for (ExprId id : ids) {
    if (body_.exprs[id].op == ExprOp::load && !columns_.contains(id))
      loads.insert(operand_names_[body_.exprs[id].operand]);
  }
  for (ExprId id : loop.reductions) reduced.push_back(wanted_name(id));
  for (int s : loop.stores) {
    const StoreKind kind = body_.stores[s].kind;
    (is_sum(kind)               ? summed
     : kind == StoreKind::raise ? raised
                                : stored)
        .push_back(operand_names_[body_.stores[s].operand]);
  }
  if (!loads.empty()) parts.push_back(fmt::format("load {}", fmt::join(loads, ", ")));
  if (!reduced.empty()) parts.push_back(fmt::format("reduce {}", fmt::join(reduced, ", ")));
  if (!summed.empty()) parts.push_back(fmt::format("add to {}", fmt::join(summed, ", ")));
  if (!raised.empty()) parts.push_back(fmt::format("find {}", fmt::join(raised, ", ")));
  if (!stored.empty()) parts.push_back(fmt::format("store {}", fmt::join(stored, ", ")));
  if (is_reduced_ahead(loop))
    parts = {fmt::format("what reduce has found of this row: {}", fmt::join(reduced, ", "))};
  if (overlaps_rows_ && &loop == last_ahead_) parts.push_back("reduce the next row");
  std::string text = fmt::format("{}.", fmt::join(parts, "; "));
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

void CudaBodyPrinter::print_loop(const Loop& loop, int /*level*/) {
  const std::set<ExprId> ids = in_pass(loop);
  if (const std::string comment = pass_comment(loop, ids); !comment.empty()) {
    out_.blank();
    out_.comment(comment);
  }
  if (is_reduced_ahead(loop)) {
    take_reductions(loop);
    finish_reductions(loop);
    return;
  }
  declare_reductions(loop, "");
  if (columns(loop.space).steps > 1) {
    print_walk(loop, ids);
  } else {
    print_step(loop, ids);
  }
  finish_reductions(loop);
  forget_loads(ids);
}

// Code that names the first column of a step, `start`.
void CudaBodyPrinter::in_steps(const std::function<void()>& print) {
  start_ = named(unique("start"));
  print();
  taken_.erase(start_.text);
  start_ = {};
}

void CudaBodyPrinter::print_walk(const Loop& loop, const std::set<ExprId>& ids) {
  const bool reduces_next = overlaps_rows_ && &loop == last_ahead_;
  in_steps([&] {
    out_.open_loop("int", start_, "0", width_of(loop.space).code, code("{} += {}", start_, step(loop.space)));
    print_step(loop, ids);
    if (reduces_next) reduce_next_behind();
    out_.close();
  });
  if (reduces_next) reduce_next_last();
}

// The work of a pass on the columns that are in registers together: all of a row's, or a step's.
void CudaBodyPrinter::print_step(const Loop& loop, const std::set<ExprId>& ids) {
  const bool is_walked = columns(loop.space).steps > 1;
  declare_columns(loop.space);
  if (walks_ahead() && &loop == &stages_[0].loops[0]) await_step();
  std::set<ExprId> loads = ids;
  if (!is_walked) loads.insert(reuse_.early.begin(), reuse_.early.end());
  print_loads(loop.space, loads);
  if (&loop == last_ahead_) fetch_next();
  if (is_walked) print_peaks(loop);
  declare_kept(loop.space, ids);
  print_compute(loop, ids);
}

}  // namespace hydrac::codegen
