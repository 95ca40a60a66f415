// Names for the numbers of a layout, and the launch as an expression of them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "codegen/cuda_body_printer.h"
#include "ir/words.h"

namespace hydrac::codegen {

using Shape = CudaLayout::Shape;

// Merging bodies may leave a space that no loop walks.
std::set<int> CudaBodyPrinter::walked_spaces() const {
  std::set<int> spaces;
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) spaces.insert(loop.space);
  }
  return spaces;
}

// Kernels with several column spaces tell their constants apart by the column's variable.
std::string CudaBodyPrinter::of_space(const std::string& name, int space) const {
  if (walked_spaces().size() <= 1) return name;
  const auto symbol_of = [&](int one) { return body_.variables[body_.spaces[one].back()].symbol; };
  const std::string symbol = symbol_of(space);
  const bool is_letter = symbol.size() == 1 && std::isalpha(static_cast<unsigned char>(symbol[0]));
  const bool is_shared = std::ranges::any_of(
      walked_spaces(), [&](int other) { return other != space && symbol_of(other) == symbol; });
  return name + (is_letter && !is_shared ? symbol : std::to_string(space));
}

Size CudaBodyPrinter::vector(int space) const {
  if (node_.matmul.value != ir::kNoValue) return literal(columns(space).vector);
  return {columns(space).vector, of_space("kVector", space)};
}

Size CudaBodyPrinter::chunks(int space) const {
  return {columns(space).chunks, of_space("kChunks", space)};
}

Size CudaBodyPrinter::step(int space) const {
  return {int64_t{layout_.lanes} * columns(space).chunks * columns(space).vector, of_space("kStep", space)};
}

Size CudaBodyPrinter::steps(int space) const {
  return {columns(space).steps, of_space("kSteps", space)};
}

Size CudaBodyPrinter::ahead(int space) const {
  return {steps_ahead_ * step(space).value, "kAhead"};
}

Size CudaBodyPrinter::vectors(int space) const {
  return {columns(space).width / columns(space).vector, of_space("kVectors", space)};
}

Size CudaBodyPrinter::tiles() const {
  return {layout_.tiles, "kTiles"};
}

std::string CudaBodyPrinter::sums_text() const {
  return sum_width_ == 1 ? "" : " * kSums";
}

std::vector<CudaBodyPrinter::Constant> CudaBodyPrinter::constants() const {
  std::vector<Constant> list;
  const bool is_flat = layout_.shape == Shape::flat;
  if (is_flat) list.push_back({"int", "kThreads", std::to_string(block_threads_), "of a block"});
  if (!is_flat) {
    list.push_back({"int", "kLanes", std::to_string(layout_.lanes), "threads of a row"});
    list.push_back({"int", "kRows", std::to_string(layout_.rows), "rows of a block, side by side"});
    list.push_back({"int", "kThreads", "kLanes * kRows", "of a block"});
    list.push_back({"int", "kBlocks", std::to_string(layout_.blocks),
                    layout_.shape == Shape::tiles ? "that share the rows of a tile" : "that share the rows"});
  }
  for (const int space : walked_spaces()) {
    const ColumnLayout& layout = columns(space);
    const Size width = width_of(space), one = vector(space);
    list.push_back({"int", one.text, std::to_string(one.value), "columns that a thread moves at once"});
    list.push_back({is_flat ? "unsigned" : "int", vectors(space).text,
                    fmt::format("{} / {}", as_dividend(width), one.text), "of a row"});
    if (is_flat) continue;
    const Size pass = lanes() * one;
    const bool is_whole = layout.steps == 1 && layout_.shape == Shape::rows;
    list.push_back({"int", chunks(space).text,
                    is_whole ? ceiling_quotient(width, pass).text : std::to_string(layout.chunks),
                    "vectors of a thread"});
    list.push_back({"int", step(space).text, fmt::format("kLanes * {} * {}", chunks(space).text, one.text),
                    "columns at a time"});
    list.push_back({"int", steps(space).text, ceiling_quotient(width, step(space)).text, "of a row"});
    list.push_back({"int", ahead(space).text, fmt::format("{} * {}", steps_ahead_, step(space).text),
                    "columns of a row that shared memory has room for"});
    if (layout_.shape == Shape::tiles)
      list.push_back({"int", "kTiles", ceiling_quotient(vectors(space), lanes()).text, "of kLanes vectors"});
  }
  if (!sums_.empty()) list.push_back({"std::int64_t", "kSums", sums_size().text, "partial sums of a block"});
  if (ahead_bytes_ > 0)
    list.push_back({"int", "kSharedBytes", ahead_offset_.substr(std::string(" + ").size()),
                    "of a block: what comes ahead"});
  return list;
}

// Of `body` and of the launch.
std::string CudaBodyPrinter::sizes_text(const std::string& body, const CudaLaunch& launch) const {
  const std::vector<Constant> all = constants();
  std::vector<std::string> lines;
  std::string named_by = body + " kThreads kSharedBytes " + launch.grid_text + " " + launch.grid_of_rows;
  for (size_t i = all.size(); i-- > 0;) {
    const Constant& c = all[i];
    if (!ir::has_word(named_by, c.name)) continue;
    named_by += " " + c.value;
    lines.push_back(fmt::format("constexpr {} {} = {};  // {}\n", c.type, c.name, c.value, c.comment));
  }
  std::ranges::reverse(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

std::string CudaBodyPrinter::constants_text() const {
  std::string text;
  for (const std::string& line : named_constants()) text += "  " + line + "\n";
  return text;
}

// The number of blocks. Those that share rows are as many as run at once on the GPU.
Size CudaBodyPrinter::grid(const Size& rows) const {
  if (layout_.shape == Shape::rows && !walks_rows_) return ceiling_quotient(rows, block_rows());
  if (layout_.shape == Shape::tiles && layout_.tiles > 1) return blocks() * tiles();
  if (layout_.shape != Shape::flat) return blocks();
  Size threads = rows;
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops)
      threads = exact_quotient(rows * width_of(loop.space), vector(loop.space));
  }
  const Size blocks = ceiling_quotient(threads, {layout_.threads(), "kThreads"});
  return blocks.value == 1 ? Size{} : blocks;
}

void CudaBodyPrinter::lay_out_grid(CudaLaunch& launch) const {
  const Size blocks = grid(rows_size());
  launch.grid = blocks.value;
  launch.grid_text = blocks.text;
  const std::string of_rows = grid({rows_size().value, "rows"}).text;
  if (!ir::has_word(of_rows, "rows")) return;
  launch.rows = rows_size().text;
  launch.grid_of_rows = of_rows;
}

}  // namespace hydrac::codegen
