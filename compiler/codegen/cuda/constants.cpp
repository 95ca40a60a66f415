// Names for the numbers of a layout, and the launch as an expression of them.
#include <algorithm>
#include <cctype>

#include "codegen/cuda/body.h"
#include "codegen/cuda/body_printer.h"
#include "codegen/cuda/matmul.h"

namespace hydrac::codegen {

using Shape = CudaLayout::Shape;

// Merging bodies may leave a space that no loop walks.
std::set<int> CudaBodyPrinter::walked_spaces() const {
  std::set<int> spaces;
  for (const Loop* loop : loops()) spaces.insert(loop->space);
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
  return named(columns(space).vector, of_space("kVector", space));
}

Size CudaBodyPrinter::chunks(int space) const {
  return named(columns(space).chunks, of_space("kChunks", space));
}

Size CudaBodyPrinter::step(int space) const {
  return named(int64_t{layout_.lanes} * columns(space).chunks * columns(space).vector,
               of_space("kStep", space));
}

Size CudaBodyPrinter::steps(int space) const {
  return named(columns(space).steps, of_space("kSteps", space));
}

Size CudaBodyPrinter::ahead(int space) const {
  return named(steps_ahead_ * step(space).value, "kAhead");
}

Size CudaBodyPrinter::vectors(int space) const {
  return named(columns(space).width / columns(space).vector, of_space("kVectors", space));
}

Size CudaBodyPrinter::tiles() const {
  return named(layout_.tiles, "kTiles");
}

// In sizes that all kernels of a program know, so that the two kernels of a sum cannot disagree.
Size CudaBodyPrinter::partial_rows() const {
  const Size multiprocessors = named(gpu_.sms, kMultiprocessors);
  if (layout_.blocks % gpu_.sms == 0) return literal(layout_.blocks / gpu_.sms) * multiprocessors;
  for (const int of_each : {layout_.blocks_per_sm, 2}) {  // the planner's choices for tiles
    const Size all = literal(of_each) * multiprocessors,
               shares = ceiling_quotient(all, literal(layout_.tiles));
    if (shares.value == layout_.blocks) return shares;
    if (all.value / layout_.tiles == layout_.blocks)
      return {layout_.blocks, code(Precedence::quotient, "{} / {}", as_dividend(all), layout_.tiles)};
  }
  const bool is_matmul = node_.matmul.value != ir::kNoValue;
  const int64_t rows = is_matmul ? plan_matmul(graph_, node_, gpu_).tile.rows : layout_.rows;
  const Size of_rows = ceiling_quotient(rows_size(), literal(rows));
  return of_rows.value == layout_.blocks ? of_rows : literal(layout_.blocks);
}

Size CudaBodyPrinter::partial_bytes(const Size& rows) const {
  return rows * sums_size() * literal(4);
}

Code CudaBodyPrinter::partial_sums_of(const Code& block) const {
  return sum_width_ == 1 ? block : code("{} * {}", block, named("kSums"));
}

Block CudaBodyPrinter::sizes() const {
  Block sizes;
  const auto declare = [&](const Size& size, const Code& value, const char* comment) {
    sizes.declare_where_used("constexpr int", size.code.text, value, comment);
  };
  const bool is_flat = layout_.shape == Shape::flat;
  if (is_flat) {
    sizes.line("constexpr int kThreads = {};", block_threads_).comment = "of a block";
  } else {
    declare(lanes(), std::to_string(layout_.lanes), "threads of a row");
    declare(block_rows(), std::to_string(layout_.rows), "rows of a block, side by side");
    sizes.line("constexpr int kThreads = {} * {};", lanes(), block_rows()).comment = "of a block";
    declare(blocks(), sums_.empty() || sums_are_direct() ? literal(layout_.blocks).code : partial_rows().code,
            layout_.shape == Shape::tiles ? "that share the rows of a tile" : "that share the rows");
  }
  for (const int space : walked_spaces()) {
    const ColumnLayout& layout = columns(space);
    const Size width = width_of(space), one = vector(space);
    declare(one, std::to_string(one.value), "columns that a thread moves at once");
    sizes.declare_where_used(is_flat ? "constexpr unsigned" : "constexpr int", vectors(space).code.text,
                             code("{} / {}", as_dividend(width), one), "of a row");
    if (is_flat) continue;
    const bool is_whole = layout.steps == 1 && layout_.shape == Shape::rows;
    declare(chunks(space),
            is_whole ? ceiling_quotient(width, lanes() * one).code : Code(std::to_string(layout.chunks)),
            "vectors of a thread");
    declare(step(space), code("{} * {} * {}", lanes(), chunks(space), one), "columns at a time");
    declare(steps(space), ceiling_quotient(width, step(space)).code, "of a row");
    declare(ahead(space), code("{} * {}", steps_ahead_, step(space)),
            "columns of a row that shared memory has room for");
    if (layout_.shape == Shape::tiles)
      declare(tiles(), ceiling_quotient(vectors(space), lanes()).code, "of kLanes vectors");
  }
  sizes.declare_where_used("constexpr std::int64_t", "kSums", sums_size().code, "partial sums of a block");
  if (ahead_bytes_ > 0)
    sizes.line("constexpr int kSharedBytes = {};", ahead_offset_).comment = "of a block: what comes ahead";
  return sizes;
}

// The constants that the kernel's body and its launch use.
Block CudaBodyPrinter::sizes_for(Names used, const CudaLaunch& launch) const {
  used.insert(launch.grid_text.names.begin(), launch.grid_text.names.end());
  used.insert(launch.grid_of_rows.names.begin(), launch.grid_of_rows.names.end());
  Block all = sizes();
  all.drop_unused(std::move(used));
  return all;
}

// The number of blocks. If blocks share rows, as many as the GPU runs at once.
Size CudaBodyPrinter::grid(const Size& rows) const {
  if (layout_.shape == Shape::rows && !walks_rows_) return ceiling_quotient(rows, block_rows());
  if (layout_.shape == Shape::tiles && layout_.tiles > 1) return blocks() * tiles();
  if (layout_.shape != Shape::flat) return blocks();
  Size threads = rows;
  for (const Loop* loop : loops())
    threads = exact_quotient(rows * width_of(loop->space), vector(loop->space));
  const Size blocks = ceiling_quotient(threads, named(layout_.threads(), "kThreads"));
  return blocks.value == 1 ? Size{} : blocks;
}

void CudaBodyPrinter::lay_out_grid(CudaLaunch& launch) const {
  const Size blocks = grid(rows_size());
  launch.grid = blocks.value;
  launch.grid_text = blocks.code;
  const Code of_rows = grid(named(rows_size().value, "rows")).code;
  if (!of_rows.refers_to("rows")) return;
  launch.rows = rows_size().code;
  launch.grid_of_rows = of_rows;
}

}  // namespace hydrac::codegen
