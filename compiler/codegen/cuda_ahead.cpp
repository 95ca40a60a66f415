#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;

int64_t CudaBodyPrinter::bytes_ahead(ExprId id) const {
  const ColumnLayout& layout = columns(deps_[id].space);
  const int64_t places =
      layout.steps > 1 ? layout.width : int64_t{layout.chunks} * layout.vector * layout_.threads();
  return (places * size_of(body_.operands[body_.exprs[id].operand].dtype) + 15) / 16 * 16;
}

// Where a block walks many rows: the vectors that the first pass over a row loads, if shared memory has room
// for them. A row in registers leaves shared memory at once for the next one to come; one that is walked in
// steps is read again there, and leaves step by step in its last pass. Rows do not read what other rows
// write, so that they may be early.
std::vector<ExprId> CudaBodyPrinter::loads_ahead() const {
  const bool only_reads = std::ranges::none_of(
      body_.stores, [](const ir::Store& store) { return store.kind == ir::StoreKind::store; });
  if (gpu_.capability < 80 || stages_.empty() || stages_[0].loops.empty() ||
      body_.row_count() <= layout_.blocks * layout_.rows)
    return {};
  const Loop& loop = stages_[0].loops[0];
  const ColumnLayout& layout = columns(loop.space);
  if (layout.vector == 1 || (only_reads && layout.steps == 1)) return {};
  std::set<ExprId> ids = needed(loop, [](ExprId) { return false; });
  ids.insert(reuse_.early.begin(), reuse_.early.end());
  std::vector<ExprId> loads;
  int64_t bytes = 0;
  for (ExprId id : ids) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op != ExprOp::load || deps_[id].space != loop.space || is_invariant(id)) continue;
    const bool gathers =
        std::ranges::any_of(expr.index, [](const ir::IndexDim& dim) { return dim.gather >= 0; });
    const ColumnAccess access = column_access(graph_, node_, expr.operand, expr.index, loop.space, deps_);
    const int64_t size = size_of(body_.operands[expr.operand].dtype);
    if (gathers || access.kind != ColumnAccess::Kind::consecutive ||
        std::min(access.width, layout.vector) * size < 8)
      continue;
    loads.push_back(id);
    bytes += bytes_ahead(id);
  }
  constexpr int64_t of_the_system = 1024;
  const int64_t a_block = shared_bytes_of_sm(gpu_) / layout_.blocks_per_sm - of_the_system;
  return bytes + static_shared_bytes() <= a_block ? loads : std::vector<ExprId>{};
}

// Each thread has places of its own, so that nothing but its own copies must be waited for.
void CudaBodyPrinter::declare_ahead() {
  const std::vector<ExprId> loads = loads_ahead();
  if (loads.empty()) return;
  out_.line("extern __shared__ __align__(16) unsigned char shared[];");
  for (ExprId id : loads) {
    const int operand = body_.exprs[id].operand;
    const int space = deps_[id].space;
    ahead_[id] = unique(operand_names_[operand] + "_ahead");
    out_.line(fmt::format("auto* const {} = reinterpret_cast<Vector<{}, {}>*>(shared{}) + threadIdx.x;",
                          ahead_[id], c_type(operand), vector(space).text, ahead_offset_));
    const int64_t element = size_of(body_.operands[operand].dtype), bytes = bytes_ahead(id);
    const Size places = columns(space).steps > 1
                            ? width_of(space)
                            : Size{bytes / element, fmt::format("{} * kRows", step(space).text)};
    ahead_bytes_ += bytes;
    ahead_offset_ += places.value * element == bytes
                         ? fmt::format(" + {} * sizeof({})", as_factor(places), c_type(operand))
                         : fmt::format(" + {}", bytes);
  }
  const int space = deps_[loads[0]].space;
  last_ahead_ = &stages_[0].loops[0];
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) {
      if (columns(space).steps == 1 || loop.space != space) continue;
      const std::set<ExprId> ids = needed(loop, [](ExprId) { return false; });
      if (std::ranges::any_of(loads, [&](ExprId id) { return ids.contains(id); })) last_ahead_ = &loop;
    }
  }
}

std::string CudaBodyPrinter::place_ahead(ExprId id) const {
  const ColumnLayout& layout = columns(deps_[id].space);
  std::string place = start_.empty() ? "" : fmt::format("{} / {}", start_, vector(deps_[id].space).text);
  if (layout.chunks > 1) place += fmt::format("{}k * kThreads", place.empty() ? "" : " + ");
  return fmt::format("{}[{}]", ahead_.at(id), place.empty() ? "0" : place);
}

// fetch(r) starts the copies of row r, fetch(r, start) those of a step.
void CudaBodyPrinter::print_fetch() {
  const int space = deps_[ahead_.begin()->first].space;
  const ColumnLayout& layout = columns(space);
  const bool is_walked = layout.steps > 1, needs_row_variables = needs_row_variables_;
  out_.line("");
  out_.line(fmt::format(
      "// Starts the copies of {} row r to shared memory: they arrive while {} is computed.",
      is_walked ? "a step of" : "a", is_walked ? "what is left of the row before" : "the row before"));
  out_.open(fmt::format("const auto fetch = [&](std::int64_t r{}) {{", is_walked ? ", int start" : ""));
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  if (is_walked) start_ = unique("start");
  open_chunks(space);
  for (const auto& [id, name] : ahead_) {
    const ir::Expr& expr = body_.exprs[id];
    const int width =
        std::min(column_access(graph_, node_, expr.operand, expr.index, space, deps_).width, layout.vector);
    out_.line(fmt::format("copy_columns<{}>({}, {});", access_text(space, width), place_ahead(id),
                          pointer(expr.operand, expr.index)));
  }
  close_chunks(space);
  const std::string copies = out_.text();
  out_ = std::move(outside);
  const std::string pointers = row_pointers();
  print_row_variables(pointers + copies);
  out_.append(pointers + copies);
  out_.close("};");
  // The walk has pointers and variables of its own.
  for (const auto& [key, name] : row_pointers_) taken_.erase(name);
  row_pointers_.clear();
  needs_row_variables_ = needs_row_variables;
  if (is_walked) taken_.erase(start_);
  start_.clear();
}

// Whether a row that is walked in steps comes ahead: each step is a group of copies, and waited for by
// itself.
bool CudaBodyPrinter::walks_ahead() const {
  return !ahead_.empty() && columns(deps_[ahead_.begin()->first].space).steps > 1;
}

void CudaBodyPrinter::fetch_first() {
  const int space = deps_[ahead_.begin()->first].space;
  if (!walks_ahead()) {
    out_.line(fmt::format("if (first < {}) fetch(first);", rows_size().text));
    return;
  }
  out_.open(
      fmt::format("for (int start = 0; start < {}; start += {}) {{", width_of(space).text, step(space).text));
  out_.line("fetch(first, start);");
  out_.line("commit_copies();");
  out_.close();
}

// In a row's first pass. As many groups are under way as a row has steps, and the oldest is this step's.
// Where the next row's step is not fetched at once, an empty group takes its place, so that the number stays.
void CudaBodyPrinter::await_step() {
  out_.line(fmt::format("wait_copies_before<{} - 1>();  // this step's; the next ones stay under way",
                        steps(deps_[ahead_.begin()->first].space).text));
  if (last_ahead_ != &stages_[0].loops[0]) out_.line("commit_copies();  // an empty group in its place");
}

// Once the row, or the step of it, has left shared memory for registers.
void CudaBodyPrinter::fetch_next() {
  out_.line(fmt::format("if (r + {0} < {1}) fetch(r + {0}{2});", (blocks() * block_rows()).text,
                        rows_size().text, start_.empty() ? "" : ", " + start_));
  if (walks_ahead()) out_.line("commit_copies();");
}

}  // namespace hydrac::codegen
