#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;

// Memory idles while all blocks reduce rows that have arrived, because nothing keeps the blocks out of phase.
// So a row's first pass runs within the last pass over the previous row, after its fetches: reads, arithmetic
// and writes then overlap all the time. This works only if the first pass reduces nothing but prefetched
// columns: the row's own values are not computed until the row starts.
bool CudaBodyPrinter::overlaps_rows() const {
  const Loop& first = stages_[0].loops[0];
  if (!walks_ahead() || last_ahead_ == &first || stages_[0].loops.size() > 1 || !first.stores.empty())
    return false;
  const std::set<ExprId> ids = needed(first, [](ExprId) { return false; });
  return std::ranges::all_of(ids, [&](ExprId id) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op == ExprOp::load) return ahead_.contains(id);
    return std::ranges::all_of(
               expr.args,
               [&](ExprId arg) { return deps_[arg].space != ir::kRowSpace || deps_[arg].uniform; }) &&
           std::ranges::all_of(expr.index, [&](const ir::IndexDim& dim) {
             return std::ranges::all_of(dim.affine.terms,
                                        [&](const auto& term) { return term.first >= body_.row_variables; });
           });
  });
}

bool CudaBodyPrinter::is_reduced_ahead(const Loop& loop) const {
  return overlaps_rows_ && &loop == &stages_[0].loops[0];
}

// reduce(start), or reduce(r, start) where not all of row r is in shared memory: a step of the first pass.
void CudaBodyPrinter::print_reduce() {
  const Loop& loop = stages_[0].loops[0];
  std::vector<std::string> names;
  for (ExprId id : loop.reductions) names.push_back(wanted_name(id));
  declare_reductions(loop, "next_");
  out_.blank();
  out_.comment(fmt::format(
      "Reduces {} over a step of the row that comes, as soon as it is there: a step behind the fetches.",
      fmt::join(names, ", ")));
  in_steps([&] {
    reduce_takes_row_ = print_function("reduce", [&] {
      const std::set<ExprId> ids = in_pass(loop);
      print_step(loop, ids);
      forget_loads(ids);
    });
  });
}

// Takes over the results of this row's first pass, and resets them for the next row.
void CudaBodyPrinter::take_reductions(const Loop& loop) {
  for (ExprId id : loop.reductions) {
    if (body_.exprs[id].op == ExprOp::logsumexp) {
      const auto [peak, sum] = exponentials_[id];
      exponentials_[id] = {unique("peak"), unique("exp_sum")};
      out_.line("float {} = {}, {} = {};", exponentials_[id].first, peak, exponentials_[id].second, sum);
      out_.line("{} = kLowest, {} = 0.0f;", peak, sum);
      continue;
    }
    const Code next = names_[id];
    names_[id] = unique(wanted_name(id));
    out_.line("float {} = {};", names_[id], next);
    out_.line("{} = {};", next, neutral(id));
  }
}

Code CudaBodyPrinter::reduce_call(const Code& row, const Code& start) const {
  return reduce_takes_row_ ? code("reduce({}, {});", row, start) : code("reduce({});", start);
}

// After the fetch of a step of `row`: the previous step has arrived. `condition` says whether the row exists.
void CudaBodyPrinter::reduce_behind(const Code& row, const Code& condition) {
  const Code start = named("start");
  out_.line("if ({}{} > 0) {}", condition, start,
            reduce_call(row, code("{} - {}", start, step(stages_[0].loops[0].space))));
}

void CudaBodyPrinter::reduce_last(const Code& row) {
  const int space = stages_[0].loops[0].space;
  out_.line("commit_copies();").comment = "an empty group: nothing is fetched behind the last step";
  out_.line("{}", reduce_call(row, code("({} - 1) * {}", steps(space), step(space))));
}

void CudaBodyPrinter::reduce_next_behind() {
  reduce_behind(next_row(), code("{} < {} && ", next_row(), rows_size()));
}

void CudaBodyPrinter::reduce_next_last() {
  out_.open("if ({} < {})", next_row(), rows_size());
  reduce_last(next_row());
  out_.close();
}

}  // namespace hydrac::codegen
