// The three kernel shapes around a row: flat, a row for some lanes, and a walk over many rows that sums them.
#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

void CudaBodyPrinter::print_flat() {
  int space = kRowSpace;
  for (const Loop* loop : loops()) space = loop->space;
  const Size rows = rows_size();
  const Size a_row = space == kRowSpace ? Size{} : vectors(space);
  const int64_t chunks = rows.value * a_row.value;
  const auto chunks_of = [&](const Size& some) {
    return space == kRowSpace ? some : exact_quotient(some * width_of(space), vector(space));
  };
  counts_elements_ = chunks > 1;
  flat_space_ = space;
  if (chunks == 1) {
    out_.line("if (threadIdx.x != 0) return;");
  } else {
    const bool is_small = chunks < (int64_t{1} << 31), is_whole = chunks % layout_.threads() == 0;
    const std::string any = chunks_of(any_rows_).code.text;
    if (is_small) bounds_.insert(any + " < std::int64_t{1} << 31");
    has_whole_blocks_ = is_whole && layout_.threads() == block_threads_;
    if (is_whole) bounds_.insert(any + " % kThreads == 0");
    out_.line("const {} i = blockIdx.x * {} + threadIdx.x;", is_small ? "unsigned" : "std::int64_t",
              is_small ? "kThreads" : "std::int64_t{kThreads}");
    if (!is_whole) out_.line("if (i >= {}) return;", chunks_of(rows));
  }
  const Code index = chunks == 1 ? "0" : "i";
  const bool is_vector = space != kRowSpace && vector(space).value > 1;
  out_.declare_where_used("const std::int64_t", "first",
                          is_vector ? code("std::int64_t{{i}} * {}", vector(space)) : "i");
  out_.declare_where_used("const std::int64_t", "r",
                          a_row.value == 1 ? index : code("{} / {}", index, a_row));
  if (space != kRowSpace) {
    Code column = rows.value == 1 ? index : a_row.value == 1 ? Code("0") : code("{} % {}", index, a_row);
    if (is_vector && a_row.value > 1) column = code("{} * {}", column, vector(space));
    print_column_variables(space, column);
  }
  print_row();
}

// The flat column, and the variables of a space with several.
void CudaBodyPrinter::print_column_variables(int space, const Code& column) {
  const std::vector<int>& variables = body_.spaces[space];
  out_.declare_where_used("const int", flat_column_of(space).text, column);
  if (variables.size() == 1) return;
  Size below;
  for (size_t v = variables.size(); v-- > 0;) {
    const Size size = dimensions_.of(body_.variables[variables[v]]);
    const Code& flat = flat_columns_.at(space);
    Code value = below.value == 1 ? flat : code("{} / {}", flat, parenthesized(below.code));
    if (v > 0) value = code("{} % {}", value, parenthesized(size.code));
    out_.declare_where_used("const int", variables_[variables[v]].text, value);
    below = size * below;
  }
}

void CudaBodyPrinter::print_lanes() {
  out_.line("RowLanes<{}, {}> lanes;", lanes(), block_rows());
}

void CudaBodyPrinter::print_rows() {
  print_lanes();
  const Size rows = rows_size();
  const bool is_small = rows.value < (int64_t{1} << 31) - layout_.rows;
  const Code of_block = is_small ? block_rows().code : code("std::int64_t{{{}}}", block_rows());
  out_.declare_where_used("const std::int64_t", "r",
                          layout_.rows == 1 ? "blockIdx.x" : code("blockIdx.x * {} + lanes.row", of_block));
  if (rows.value % layout_.rows != 0) out_.line("if ({} >= {}) return;", named("r"), rows);
  print_row();
}

void CudaBodyPrinter::print_row_walk() {
  print_lanes();
  Code first = "blockIdx.x";
  if (layout_.shape == Shape::tiles && layout_.tiles > 1) {
    if (layout_.blocks == 1) {
      out_.line("const int tile = blockIdx.x;");
    } else {
      out_.line("const int tile = blockIdx.x % {0}, share = blockIdx.x / {0};", tiles());
    }
    first = layout_.blocks == 1 ? Code() : "share";
  }
  if (layout_.rows > 1)
    first = sum_of(first.empty() ? first : code("{} * {}", first, block_rows()), "lanes.row");
  if (first.empty()) first = "0";
  declare_sums();
  for (const Loop* loop : loops()) {
    std::set<ExprId> invariant = needed(*loop, [](ExprId) { return false; });
    std::erase_if(invariant, [&](ExprId id) { return !is_invariant(id); });
    declare_columns(loop->space);
    print_loads(loop->space, invariant);
  }
  declare_ahead();
  if (!ahead_.empty()) {
    print_fetch();
    overlaps_rows_ = overlaps_rows();
    if (overlaps_rows_) print_reduce();
    out_.line("const std::int64_t first = {};", first);
    fetch_first();
    first = "first";
  }
  out_.blank();
  const bool only_reads =
      std::ranges::none_of(body_.stores, [](const Store& store) { return store.kind == StoreKind::store; });
  const bool is_tile = layout_.shape == Shape::tiles && layout_.lanes * layout_.rows < 512;
  if (only_reads && (is_tile || adds_before_reducing())) out_.line("#pragma unroll 4");
  const Size step = blocks() * block_rows();
  out_.open_loop("std::int64_t", named("r"), first, rows_size().code,
                 step.value == 1 ? "++r" : code("r += {}", step));
  if (!ahead_.empty() && !walks_ahead()) out_.line("wait_copies();");
  print_row();
  out_.close();
  print_partial_sums();
}

}  // namespace hydrac::codegen
