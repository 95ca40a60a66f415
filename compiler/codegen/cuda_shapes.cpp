// The three shapes of a kernel around its row: flat, a row for some lanes, and a walk over many rows that
// sums them.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

void CudaBodyPrinter::print_flat() {
  int space = kRowSpace;
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) space = loop.space;
  }
  const Size rows = rows_size();
  const Size a_row = space == kRowSpace ? Size{} : vectors(space);
  const int64_t chunks = rows.value * a_row.value;
  counts_elements_ = chunks > 1;
  flat_space_ = space;
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  print_row();
  const std::string row = out_.text();
  out_ = std::move(outside);
  if (chunks == 1) {
    out_.line("if (threadIdx.x != 0) return;");
  } else {
    const bool is_small = chunks < (int64_t{1} << 31), is_whole = chunks % layout_.threads() == 0;
    const Size any_rows = {rows.value, "rows"},
               any =
                   space == kRowSpace ? any_rows : exact_quotient(any_rows * width_of(space), vector(space));
    if (is_small) bounds_.insert(any.text + " < std::int64_t{1} << 31");
    has_whole_blocks_ = is_whole && layout_.threads() == block_threads_;
    if (is_whole) bounds_.insert(any.text + " % kThreads == 0");
    out_.line(is_small ? "const unsigned i = blockIdx.x * kThreads + threadIdx.x;"
                       : "const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;");
    const Size all = space == kRowSpace ? rows : exact_quotient(rows * width_of(space), vector(space));
    if (!is_whole) out_.line(fmt::format("if (i >= {}) return;", all.text));
  }
  const std::string index = chunks == 1 ? "0" : "i";
  if (ir::has_word(row, "first")) {
    const bool is_vector = space != kRowSpace && vector(space).value > 1;
    out_.line(is_vector
                  ? fmt::format("const std::int64_t first = std::int64_t{{i}} * {};", vector(space).text)
                  : "const std::int64_t first = i;");
  }
  if (ir::has_word(row, "r"))
    out_.line(fmt::format("const std::int64_t r = {};",
                          a_row.value == 1 ? index : fmt::format("{} / {}", index, a_row.text)));
  if (space != kRowSpace) {
    std::string column = rows.value == 1    ? index
                         : a_row.value == 1 ? "0"
                                            : fmt::format("{} % {}", index, a_row.text);
    if (vector(space).value > 1 && column != "0") column += " * " + vector(space).text;
    print_column_variables(space, column, row);
  }
  out_.append(row);
}

// The flat column, and the variables of a space with several, where the text names them.
void CudaBodyPrinter::print_column_variables(int space, const std::string& column,
                                             const std::string& named_by) {
  const std::vector<int>& variables = body_.spaces[space];
  if (variables.size() == 1) {
    const std::string& name = variables_[variables[0]];
    if (ir::has_word(named_by, name)) out_.line(fmt::format("const int {} = {};", name, column));
    return;
  }
  std::vector<std::string> lines;
  Size below;
  for (size_t v = variables.size(); v-- > 0;) {
    const Size size = dimensions_.of(body_.variables[variables[v]]);
    std::string value = below.value == 1 ? "column" : fmt::format("column / {}", parenthesized(below.text));
    if (v > 0) value += fmt::format(" % {}", parenthesized(size.text));
    const std::string& name = variables_[variables[v]];
    if (ir::has_word(named_by, name)) lines.push_back(fmt::format("const int {} = {};", name, value));
    below = size * below;
  }
  if (!lines.empty() || ir::has_word(named_by, "column"))
    out_.line(fmt::format("const int column = {};", column));
  for (const std::string& line : lines) out_.line(line);
}

void CudaBodyPrinter::print_lanes() {
  out_.line("RowLanes<kLanes, kRows> lanes;");
}

void CudaBodyPrinter::print_rows() {
  print_lanes();
  const Size rows = rows_size();
  const bool is_small = rows.value < (int64_t{1} << 31) - layout_.rows;
  out_.line(layout_.rows == 1 ? "const std::int64_t r = blockIdx.x;"
            : is_small        ? "const std::int64_t r = blockIdx.x * kRows + lanes.row;"
                              : "const std::int64_t r = blockIdx.x * std::int64_t{kRows} + lanes.row;");
  if (rows.value % layout_.rows != 0) out_.line(fmt::format("if (r >= {}) return;", rows.text));
  print_row();
}

void CudaBodyPrinter::print_row_walk() {
  print_lanes();
  std::string block = "blockIdx.x";
  if (layout_.shape == Shape::tiles && layout_.tiles > 1) {
    out_.line(layout_.blocks == 1 ? "const int tile = blockIdx.x;"
                                  : "const int tile = blockIdx.x % kTiles, share = blockIdx.x / kTiles;");
    block = layout_.blocks == 1 ? "0" : "share";
  }
  declare_sums();
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) {
      std::set<ExprId> invariant;
      for (ExprId id : needed(loop, [](ExprId) { return false; })) {
        if (is_invariant(id)) invariant.insert(id);
      }
      declare_columns(loop.space);
      print_loads(loop.space, invariant);
    }
  }
  std::string first = layout_.rows == 1 ? block : fmt::format("{} * kRows + lanes.row", block);
  if (block == "0" && layout_.rows > 1) first = "lanes.row";
  declare_ahead();
  if (!ahead_.empty()) {
    print_fetch();
    overlaps_rows_ = overlaps_rows();
    if (overlaps_rows_) print_reduce();
    out_.line(fmt::format("const std::int64_t first = {};", first));
    fetch_first();
    first = "first";
  }
  out_.line("");
  const bool only_reads =
      std::ranges::none_of(body_.stores, [](const Store& store) { return store.kind == StoreKind::store; });
  const bool is_tile = layout_.shape == Shape::tiles && layout_.lanes * layout_.rows < 512;
  if (only_reads && (is_tile || adds_before_reducing())) out_.line("#pragma unroll 4");
  const Size step = blocks() * block_rows();
  out_.open(fmt::format("for (std::int64_t r = {}; r < {}; {}) {{", first, rows_size().text,
                        step.value == 1 ? "++r" : "r += " + step.text));
  if (!ahead_.empty() && !walks_ahead()) out_.line("wait_copies();");
  print_row();
  out_.close();
  print_partial_sums();
}

}  // namespace hydrac::codegen
