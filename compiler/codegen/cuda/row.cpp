// One row of a kernel, whatever the shape around it: its pointers, variables, values, loops and stores.
#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

void CudaBodyPrinter::print_row() {
  out_.add(with_row_pointers(written([&] {
    for (const Loop* loop : loops()) declare_columns(loop->space);
    print_stages();
  })));
}

void CudaBodyPrinter::before_loops(int level) {
  if (loads_shared_row_values(level))
    out_.line("lanes.sync();").comment = "all have read the row's values, which are overwritten";
}

// 32-bit divisions are far cheaper. If r is computed from 32-bit numbers, the compiler knows that it fits 32
// bits.
bool CudaBodyPrinter::has_narrow_rows() const {
  return walks_rows_ && body_.row_count() < (int64_t{1} << 31);
}

Code CudaBodyPrinter::row_offset(int operand, const Code& rows) {
  return node_.matmul.value != ir::kNoValue ? in_32_bits(operand, rows) : rows;
}

// True if another lane may overwrite a value of the row that this one has just loaded.
bool CudaBodyPrinter::loads_shared_row_values(int level) const {
  return layout_.lanes > 1 && std::ranges::any_of(live_, [&](ExprId id) {
           const ir::Expr& expr = body_.exprs[id];
           return expr.op == ExprOp::load && deps_[id].space == kRowSpace && !deps_[id].uniform &&
                  deps_[id].level == level && is_overwritten(expr.operand);
         });
}

void CudaBodyPrinter::print_row_store(const Store& store) {
  const auto s = static_cast<int>(&store - body_.stores.data());
  if (store.kind == StoreKind::raise) return raise(s);
  if (is_sum(store.kind)) return add_to_sum(s);
  Code guard;
  if (layout_.lanes > 1) guard = "if (lanes.lane == 0) ";
  if (layout_.shape == Shape::flat) {
    for (const Loop* loop : loops()) guard = code("if ({} == 0) ", flat_column_of(loop->space));
  }
  out_.line("{}{} = {};", guard, element(store.operand, store.index),
            narrowed(store.operand, text_.of(store.value)));
}

}  // namespace hydrac::codegen
