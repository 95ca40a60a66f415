// One row of a kernel, whatever the shape around it: its pointers, variables, values, loops and stores.
#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

void CudaBodyPrinter::print_row() {
  out_.add(with_row_pointers(written([&] {
    for (const Stage& stage : stages_) {
      for (const Loop& loop : stage.loops) declare_columns(loop.space);
    }
    print_stages();
  })));
}

void CudaBodyPrinter::before_loops(int level) {
  if (loads_shared_row_values(level)) out_.line("lanes.sync();");
}

// 32-bit divisions are far cheaper. Where r is computed from 32-bit numbers, the compiler knows that it is
// one.
bool CudaBodyPrinter::has_narrow_rows() const {
  return walks_rows_ && body_.row_count() < (int64_t{1} << 31);
}

Code CudaBodyPrinter::row_offset(int operand, const Code& rows) {
  return node_.matmul.value != ir::kNoValue ? in_32_bits(operand, rows) : rows;
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
  Code guard;
  if (layout_.lanes > 1) guard = "if (lanes.lane == 0) ";
  if (layout_.shape == Shape::flat) {
    for (const Stage& stage : stages_) {
      for (const Loop& loop : stage.loops) guard = code("if ({} == 0) ", flat_column_of(loop.space));
    }
  }
  out_.line("{}{} = {};", guard, element(store.operand, store.index),
            narrowed(store.operand, text_.of(store.value)));
}

}  // namespace hydrac::codegen
