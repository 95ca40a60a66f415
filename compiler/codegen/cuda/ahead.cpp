#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;

int64_t CudaBodyPrinter::bytes_ahead(ExprId id, int64_t steps) const {
  const ColumnLayout& layout = columns(deps_[id].space);
  const int64_t at_once = int64_t{layout.chunks} * layout.vector * layout_.threads();
  const int64_t places = steps > 0 ? steps * at_once : layout.steps > 1 ? layout.width : at_once;
  return (places * size_of(body_.operands[body_.exprs[id].operand].dtype) + 15) / 16 * 16;
}

// The vectors that the first pass over a row loads, if a block walks many rows. A row in registers frees
// shared memory at once for the next row. A row that is walked in steps is read again from shared memory, and
// frees it step by step in its last pass. Rows do not read what other rows write, so prefetching is safe.
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
  for (ExprId id : ids) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op != ExprOp::load || deps_[id].space != loop.space || is_invariant(id)) continue;
    const bool gathers =
        std::ranges::any_of(expr.index, [](const ir::IndexDim& dim) { return dim.gather >= 0; });
    const ColumnAccess access = access_of(id);
    const int64_t size = size_of(body_.operands[expr.operand].dtype);
    if (gathers || access.kind != ColumnAccess::Kind::consecutive ||
        std::min(access.width, layout.vector) * size < 8)
      continue;
    loads.push_back(id);
  }
  return loads;
}

// True if shared memory has room for these loads: for a whole row or, if a walked row is too long, for its
// first steps. The other steps are prefetched into L2; a row of which most would stay there is not
// prefetched.
bool CudaBodyPrinter::makes_room_ahead(const std::vector<ExprId>& loads) {
  constexpr int64_t of_the_system = 1024;
  const int64_t room = cuda::shared_bytes_of_sm(gpu_.capability) / layout_.blocks_per_sm - of_the_system -
                       static_shared_bytes();
  const auto bytes = [&](int64_t steps) {
    int64_t sum = 0;
    for (ExprId id : loads) sum += bytes_ahead(id, steps);
    return sum;
  };
  if (bytes(0) <= room) return true;
  const int64_t all = columns(deps_[loads[0]].space).steps;
  if (gpu_.capability < 90 || layout_.blocks_per_sm > 1 || all == 1) return false;
  const int64_t fit = room / bytes(1);
  if (2 * fit < all) return false;
  steps_ahead_ = fit;
  return true;
}

// Each thread has places of its own, so that nothing but its own copies must be waited for.
void CudaBodyPrinter::declare_ahead() {
  const std::vector<ExprId> loads = loads_ahead();
  if (loads.empty() || !makes_room_ahead(loads)) return;
  out_.line("extern __shared__ __align__(16) unsigned char shared[];");
  for (ExprId id : loads) {
    const int operand = body_.exprs[id].operand;
    const int space = deps_[id].space;
    ahead_[id] = unique(operand_names_[operand] + "_ahead");
    out_.line("auto* const {} = reinterpret_cast<Vector<{}, {}>*>({}) + threadIdx.x;", ahead_[id],
              c_type(operand), vector(space), sum_of("shared", ahead_offset_));
    const int64_t element = size_of(body_.operands[operand].dtype), bytes = bytes_ahead(id, steps_ahead_);
    const Size places =
        steps_ahead_ > 0 ? ahead(space)
        : columns(space).steps > 1
            ? width_of(space)
            : Size{bytes / element, code(Precedence::product, "{} * {}", step(space), block_rows())};
    ahead_bytes_ += bytes;
    ahead_offset_ = sum_of(ahead_offset_, places.value * element == bytes
                                              ? code("{} * sizeof({})", as_factor(places), c_type(operand))
                                              : Code(std::to_string(bytes)));
  }
  const int space = deps_[loads[0]].space;
  last_ahead_ = &stages_[0].loops[0];
  for (const Loop* loop : loops()) {
    if (columns(space).steps == 1 || loop->space != space) continue;
    const std::set<ExprId> ids = needed(*loop, [](ExprId) { return false; });
    if (std::ranges::any_of(loads, [&](ExprId id) { return ids.contains(id); })) last_ahead_ = loop;
  }
}

Code CudaBodyPrinter::place_ahead(ExprId id) const {
  const int space = deps_[id].space;
  const Code step = start_.empty() ? Code() : code("{} / {}", start_, vector(space));
  const Code place = sum_of(step, columns(space).chunks > 1 ? "k * kThreads" : "");
  return code("{}[{}]", ahead_.at(id), place.empty() ? "0" : place);
}

// Prints `const auto name = [&](std::int64_t r, int start) {...};` with the parameters that the body uses,
// and its own row pointers and row variables. Returns whether r is one of the parameters.
bool CudaBodyPrinter::print_function(const std::string& name, const std::function<void()>& print_body) {
  Block body = with_row_pointers(written(print_body));
  const Names used = body.drop_unused();
  const bool takes_row = used.contains("r"), takes_start = used.contains("start");
  out_.open("const auto {} = [&]({}{}{})", name, takes_row ? "std::int64_t r" : "",
            takes_row && takes_start ? ", " : "", takes_start ? "int start" : "")
      .binds = {"r", "start"};
  out_.add(std::move(body));
  out_.close("};");
  return takes_row;
}

// A vector of a row whose last steps have no room in shared memory.
Code CudaBodyPrinter::where_ahead(ExprId id, const Code& there) {
  const ir::Expr& expr = body_.exprs[id];
  const int space = deps_[id].space;
  const ColumnAccess access = access_of(id);
  return code("{} < {} ? {} : load_columns<{}{}>({})", start_, ahead(space), there, vector(space),
              narrower_access(access, columns(space)), pointer(expr.operand, expr.index));
}

// fetch(r) starts the copies of row r, fetch(r, start) those of a step.
void CudaBodyPrinter::print_fetch() {
  const int space = deps_[ahead_.begin()->first].space;
  const bool is_walked = columns(space).steps > 1;
  out_.blank();
  out_.comment(fmt::format(
      "Starts the copies of {} row r to shared memory: they arrive while {} is computed.",
      is_walked ? "a step of" : "a", is_walked ? "what is left of the row before" : "the row before"));
  if (steps_ahead_ > 0) out_.comment("Of steps that have no room there, to L2.");
  const auto print = [&] {
    print_function("fetch", [&] {
      in_chunks(space, [&] {
        for (const auto& [id, name] : ahead_) print_copy(id);
      });
    });
  };
  is_walked ? in_steps(print) : print();
}

// Copies one chunk.
void CudaBodyPrinter::print_copy(ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  const int space = deps_[id].space;
  const ColumnAccess access = access_of(id);
  const Code from = pointer(expr.operand, expr.index);
  if (steps_ahead_ > 0) out_.open("if ({} < {})", start_, ahead(space));
  out_.line("copy_columns<{}>({}, {});", access_width(space, std::min(access.width, columns(space).vector)),
            place_ahead(id), from);
  if (steps_ahead_ == 0) return;
  out_.otherwise("else");
  out_.line("prefetch({});", from);
  out_.close();
}

// True if a row that is walked in steps is prefetched: each step is a group of copies with its own wait.
bool CudaBodyPrinter::walks_ahead() const {
  return !ahead_.empty() && columns(deps_[ahead_.begin()->first].space).steps > 1;
}

void CudaBodyPrinter::fetch_first() {
  const int space = deps_[ahead_.begin()->first].space;
  if (!walks_ahead()) {
    out_.line("if (first < {}) fetch(first);", rows_size());
    return;
  }
  const Code start = named("start");
  out_.open_loop("int", start, "0", width_of(space).code, code("{} += {}", start, step(space)));
  out_.line("fetch(first, start);");
  out_.line("commit_copies();");
  if (overlaps_rows_) reduce_behind("first", "");
  out_.close();
  if (overlaps_rows_) reduce_last("first");
}

// In a row's first pass. As many copy groups are in flight as a row has steps, and the oldest is this step's.
// If the next row's step is not fetched at once, an empty group keeps the count.
void CudaBodyPrinter::await_step() {
  if (overlaps_rows_) {
    out_.line("wait_copies_before<1>();").comment = "this step's; the next one stays under way";
    return;
  }
  out_.line("wait_copies_before<{} - 1>();", steps(deps_[ahead_.begin()->first].space)).comment =
      "this step's; the next ones stay under way";
  if (last_ahead_ != &stages_[0].loops[0])
    out_.line("commit_copies();").comment = "an empty group in its place";
}

Code CudaBodyPrinter::next_row() const {
  return code("{} + {}", named("r"), blocks() * block_rows());
}

// Once the row, or the step of it, has left shared memory for registers.
void CudaBodyPrinter::fetch_next() {
  out_.line("if ({0} < {1}) fetch({0}{2});", next_row(), rows_size(),
            start_.empty() ? Code() : code(", {}", start_));
  if (walks_ahead()) out_.line("commit_copies();");
}

}  // namespace hydrac::codegen
