// One row of a kernel, whatever the shape around it: its pointers, variables, values, loops and stores.
#include <fmt/format.h>

#include "codegen/cuda_body_printer.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

// The row's text is written first, so that the pointers and variables it needs are known, and put behind
// them.
void CudaBodyPrinter::print_row() {
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) declare_columns(loop.space);
  }
  for (size_t level = 0; level < stages_.size(); ++level) {
    print_row_values(static_cast<int>(level));
    if (loads_shared_row_values(static_cast<int>(level))) out_.line("lanes.sync();");
    for (const Loop& loop : stages_[level].loops) print_loop(loop);
    for (int s : stages_[level].row_stores) print_row_store(body_.stores[s]);
  }
  const std::string row = out_.text();
  out_ = std::move(outside);
  const std::string pointers = row_pointers();
  print_row_variables(pointers + row);
  out_.append(pointers + row);
}

void CudaBodyPrinter::print_row_variables(const std::string& named_by) {
  if (!needs_row_variables_) return;
  // 32-bit divisions are far cheaper. Where r is computed from 32-bit numbers, the compiler knows that it is
  // one.
  const bool narrows = walks_rows_ && body_.row_count() < (int64_t{1} << 31);
  for (int v = body_.row_variables; v-- > 0;) {
    if (!ir::has_word(named_by, variables_[v])) continue;
    const Size below = rows_below(v);
    std::string value = narrows && (below.value > 1 || v > 0) ? "static_cast<unsigned>(r)" : "r";
    if (below.value > 1) value += fmt::format(" / {}", parenthesized(below.text));
    if (v > 0) value += fmt::format(" % {}", parenthesized(dimensions_.of(body_.variables[v]).text));
    out_.line(fmt::format("const std::int64_t {} = {};", variables_[v], value));
  }
}

std::string CudaBodyPrinter::row_pointers() {
  Writer pointers(out_.indent());
  for (const auto& [key, name] : row_pointers_) {
    const bool is_written = body_.operands[key.first].output >= 0;
    const bool is_epilogue = node_.matmul.value != ir::kNoValue;
    pointers.line(fmt::format("{}{}* {} = {} + {};", is_written ? "" : "const ", c_type(key.first), name,
                              operand_names_[key.first],
                              is_epilogue ? in_32_bits(key.first, key.second) : key.second));
  }
  return pointers.text();
}

void CudaBodyPrinter::print_row_values(int level) {
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const auto id = static_cast<ExprId>(i);
    const ir::Dependence& dep = deps_[i];
    if (!live_[i] || dep.space != kRowSpace || dep.uniform || dep.level != level) continue;
    if (is_reduction(body_.exprs[i].op) || !deserves_name(id) || !names_[i].empty()) continue;
    define(id);
  }
}

// Whether another lane may overwrite what this one has just loaded as a value of the row.
bool CudaBodyPrinter::loads_shared_row_values(int level) const {
  if (layout_.lanes == 1) return false;
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Expr& expr = body_.exprs[i];
    if (live_[i] && expr.op == ExprOp::load && deps_[i].space == kRowSpace && !deps_[i].uniform &&
        deps_[i].level == level && is_overwritten(expr.operand))
      return true;
  }
  return false;
}

void CudaBodyPrinter::print_row_store(const Store& store) {
  const auto s = static_cast<int>(&store - body_.stores.data());
  if (store.kind == StoreKind::raise) return raise(s);
  if (is_sum(store.kind)) return add_to_sum(s);
  std::string guard;
  if (layout_.lanes > 1) guard = "if (lanes.lane == 0) ";
  if (layout_.shape == Shape::flat) {
    for (const Stage& stage : stages_) {
      for (const Loop& loop : stage.loops)
        guard = fmt::format("if ({} == 0) ", body_.spaces[loop.space].size() == 1
                                                 ? variables_[body_.spaces[loop.space][0]]
                                                 : "column");
    }
  }
  out_.line(fmt::format("{}{} = {};", guard, element(store.operand, store.index),
                        narrowed(store.operand, text_.of(store.value))));
}

}  // namespace hydrac::codegen
