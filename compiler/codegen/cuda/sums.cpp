#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

bool CudaBodyPrinter::sums_in_registers(int store) const {
  const int space = body_.stores[store].space;
  return space == kRowSpace || columns(space).steps == 1;
}

// The sum over rows that is the only reader of a sum over columns: then threads add up over their rows first,
// and synchronize once.
std::optional<int> CudaBodyPrinter::summed_by(ExprId reduction) const {
  const ir::Expr& expr = body_.exprs[reduction];
  if (layout_.shape != CudaLayout::Shape::rows || expr.op != ExprOp::sum || columns(expr.space).steps > 1)
    return std::nullopt;
  for (ExprId id : live_) {
    if (std::ranges::count(body_.exprs[id].args, reduction) > 0) return std::nullopt;
  }
  std::optional<int> only;
  for (size_t s = 0; s < body_.stores.size(); ++s) {
    if (body_.stores[s].value != reduction) continue;
    if (only || !is_sum(body_.stores[s].kind) || body_.stores[s].space != kRowSpace) return std::nullopt;
    only = static_cast<int>(s);
  }
  return only;
}

// True if the threads of a row only add to such sums, so that no row makes them wait for each other.
bool CudaBodyPrinter::adds_before_reducing() const {
  return std::ranges::all_of(body_.stores, [&](const Store& store) {
    return is_reduction(body_.exprs[store.value].op) && summed_by(store.value);
  });
}

// One block sees all rows of its columns, so that its sums are final.
bool CudaBodyPrinter::sums_are_direct() const {
  return layout_.blocks == 1 && std::ranges::all_of(sums_, [&](int s) { return sums_in_registers(s); });
}

void CudaBodyPrinter::declare_sums() {
  for (int s : sums_) {
    const Store& store = body_.stores[s];
    const std::string name = unique(operand_names_[store.operand] + "_sum");
    if (!sums_in_registers(s)) {
      sum_names_[s] = {name, name};
      const Code offset = sum_offset_code(store);
      out_.line("float* {} = workspace + {};", name, sum_of(code("blockIdx.x * {}", named("kSums")), offset));
      out_.line("for (int i = lanes.lane; i < {}; i += {}) {}[i] = 0.0f;", width_of(store.space), lanes(),
                name);
    } else if (store.space == kRowSpace) {
      sum_names_[s] = {name, name};
      out_.line("float {} = 0.0f;", name);
    } else {
      sum_names_[s] = {name, per_element(name, store.space)};
      const Code array = array_of(name, store.space);
      out_.line("float {} = {};", array, array.text == name ? "0.0f" : "{}");
    }
  }
  // A row in memory belongs to the lanes that cleared it in another order than they add to it.
  if (std::ranges::any_of(sums_, [&](int s) { return !sums_in_registers(s); }))
    out_.line("__syncthreads();").comment = "the sums are 0 for all who add to them";
}

void CudaBodyPrinter::add_to_sum(int s) {
  const Store& store = body_.stores[s];
  if (is_reduction(body_.exprs[store.value].op) && summed_by(store.value)) return;  // the row's pass adds
  Code sum = sum_names_.at(s).element;
  if (!sums_in_registers(s)) {
    const ir::Affine position = sum_position(store) + ir::Affine{-sum_offset(store), {}};
    sum = code("{}[{}]", sum, position_code(position));
  }
  out_.line("{} += {};", sum, text_.of(store.value));
}

int64_t CudaBodyPrinter::floats_of_sum(int s) const {
  if (!sums_in_registers(s)) return 0;
  const int space = body_.stores[s].space;
  return space == kRowSpace ? 1 : int64_t{columns(space).chunks} * columns(space).vector;
}

// Shared memory that add_rows needs for each float of a thread, in bytes.
int64_t CudaBodyPrinter::bytes_to_add_rows() const {
  return layout_.rows == 1 ? 0 : int64_t{(layout_.rows + 1) / 2} * layout_.lanes * 4;
}

// True if the sums of all rows are added up in shared memory at once: a kernel declares 48 KiB at most.
bool CudaBodyPrinter::adds_rows_together() const {
  int64_t floats = 0;
  for (int s : sums_) floats += floats_of_sum(s);
  return floats * bytes_to_add_rows() <= 40 * 1024;
}

// The largest of a tensor's values: of a thread's, in a register, then of the grid's, in memory.
void CudaBodyPrinter::declare_raised() {
  for (const Store& store : body_.stores) {
    if (store.kind != StoreKind::raise || raised_.contains(store.operand)) continue;
    const std::string name = unique(operand_names_[store.operand] + "_here");
    raised_[store.operand] = name;
    out_.line("RunningLargest {}({});", name, operand_names_[store.operand]);
  }
}

void CudaBodyPrinter::raise(int s) {
  out_.line("{}.see({});", raised_.at(body_.stores[s].operand), text_.of(body_.stores[s].value));
}

void CudaBodyPrinter::print_raised() {
  for (const auto& [operand, name] : raised_)
    out_.line("{}.{}();", name, has_whole_blocks_ ? "raise_by_block" : "raise");
}

// At most: what sums over rows and reductions of a row declare.
int64_t CudaBodyPrinter::static_shared_bytes() const {
  int64_t floats = 0;
  for (int s : sums_) floats += floats_of_sum(s);
  return floats * bytes_to_add_rows() + (layout_.rows == 1 ? 512 : 4096);
}

void CudaBodyPrinter::print_partial_sums() {
  out_.blank();
  out_.comment(sums_are_direct() ? "This block has seen all rows of its columns."
                                 : "The sums over this block's rows: one row of the workspace a block.");
  std::vector<std::string> arrays, unreduced;
  for (int s : sums_) {
    if (sums_in_registers(s)) arrays.push_back(sum_names_.at(s).array);
    const ExprId value = body_.stores[s].value;
    if (is_reduction(body_.exprs[value].op) && summed_by(value)) unreduced.push_back(arrays.back());
  }
  if (layout_.lanes > 1 && !unreduced.empty()) out_.line("lanes.sum({});", fmt::join(unreduced, ", "));
  if (layout_.rows > 1 && adds_rows_together()) {
    out_.line("add_rows(lanes, {});", fmt::join(arrays, ", "));
  } else if (layout_.rows > 1) {
    for (const std::string& array : arrays) out_.line("add_rows(lanes, {});", array);
  }
  if (layout_.rows > 1) out_.open("if (lanes.row == 0)");
  for (int s : sums_) {
    if (sums_in_registers(s)) print_partial(s);
  }
  if (layout_.rows > 1) out_.close();
}

void CudaBodyPrinter::print_partial(int s) {
  const Store& store = body_.stores[s];
  const auto& [array, element] = sum_names_.at(s);
  const bool is_shared = layout_.shape == CudaLayout::Shape::tiles && layout_.tiles > 1;
  const Code row = sum_of(partial_sums_of(is_shared ? "share" : "blockIdx.x"), sum_offset_code(store));
  if (store.space == kRowSpace) {
    if (!sums_are_direct()) {
      out_.line("{}workspace[{}] = {};", layout_.lanes > 1 ? "if (lanes.lane == 0) " : "", row, element);
      return;
    }
    if (layout_.lanes > 1) out_.open("if (lanes.lane == 0)");
    print_direct(s, element);
    if (layout_.lanes > 1) out_.close();
    return;
  }
  const int vector = columns(store.space).vector;
  declare_columns(store.space);
  in_chunks(store.space, [&, &array = array, &element = element] {
    ir::Affine column = sum_position(store);
    column.constant = 0;
    if (sums_are_direct()) {
      in_elements(store.space, [&] { print_direct(s, element); });
    } else if (vector == 1) {
      out_.line("workspace[{} + {}] = {};", row, position_code(column), element);
    } else {
      int64_t width = std::min(4, vector);
      while (sum_width_ % width != 0 || sum_offset(store) % width != 0) width /= 2;
      out_.line("store_columns<{}>(workspace + {} + {}, {});",
                access_width(store.space, static_cast<int>(width)), row, position_code(column),
                of_chunk(array, store.space));
    }
  });
}

// The sum where it belongs.
void CudaBodyPrinter::print_direct(int s, const Code& sum) {
  const Store& store = body_.stores[s];
  const Code to = element(store.operand, store.index);
  const bool adds = store.kind == StoreKind::add_column_sum;
  if (size_of(body_.operands[store.operand].dtype) == 4) {
    out_.line("{} {} {};", to, adds ? "+=" : "=", sum);
  } else {
    out_.line("{} = {};", to,
              narrowed(store.operand, adds ? code("{} + {}", widened(store.operand, to), sum) : sum));
  }
}

CudaKernel CudaBodyPrinter::finishing_kernel(const Size& partials) {
  CudaKernel kernel;
  kernel.comment = "The second kernel of the sums: adds the blocks' partial sums, in a fixed order.";
  kernel.takes_workspace = true;
  std::set<int> taken;
  for (int s : sums_) {
    const int operand = body_.stores[s].operand;
    if (!taken.insert(operand).second) continue;
    kernel.take(fmt::format("{}*", c_type(operand)), operand_names_[operand], body_.operands[operand].shape,
                use_of(operand), true);
  }
  kernel.text.take("const float*", "workspace",
                   {{partials.value, "kPartials"}, {sum_width_, sum_width_ == 1 ? "1" : "kSums"}},
                   !waits_for_previous(gpu_));
  const int columns_a_block = sum_width_ < 16 ? 8 : 16, threads = 256;
  const Size blocks = ceiling_quotient(named(sum_width_, "kSums"), named(columns_a_block, "kColumns"));
  kernel.launch = {.grid = blocks.value,
                   .block = threads,
                   .grid_text = blocks.code,
                   .bounds = {fits_workspace(partial_bytes(partials))}};
  Block& sizes = kernel.text.sizes;
  sizes.line("constexpr int kColumns = {};", columns_a_block).comment = "of a block";
  sizes.line("constexpr int kPartials = {};", partials.code).comment = "rows of the workspace";
  sizes.line("constexpr int kSums = {};", sums_size());
  sizes.line("constexpr int kThreads = {};", threads).comment = "of a block";
  kernel.text.attributes = kernel_attributes();
  open_body(kernel.text, gpu_);
  use_sizes(kernel.text);
  out_ = Block();
  out_.line("const int column = blockIdx.x * kColumns + threadIdx.x % kColumns;");
  out_.line("const float total = sum_of_partials<kColumns, kPartials>(workspace, column, kSums);");
  const bool is_even = sum_width_ % columns_a_block == 0;
  out_.line("if (threadIdx.x >= kColumns{}) return;", is_even ? "" : " || column >= kSums");
  for (int s : sums_) {
    const Store& store = body_.stores[s];
    const bool is_first = sum_offset(store) == 0,
               is_last = sum_offset(store) + sum_elements(store) == sum_width_;
    const Size width = width_of(store.space), end = is_first ? width : sum_offset_size(store) + width;
    if (is_first && !is_last) out_.open("if (column < {})", end);
    if (!is_first && !is_last) out_.otherwise("else if (column < {})", end);
    if (!is_first && is_last) out_.otherwise("else");
    print_total_of(s);
    if (!is_first && is_last) out_.close();
  }
  kernel.text.body.add(std::move(out_));
  return kernel;
}

// Stores the total of a flat column at its place: divisions recover the column's variables.
void CudaBodyPrinter::print_total_of(int s) {
  const Store& store = body_.stores[s];
  const VariableNames saved = variables_;
  const std::map<int, Code> saved_columns = flat_columns_;
  const Code column = sum_offset(store) == 0
                          ? Code("column")
                          : code(Precedence::sum, "column - {}", parenthesized(sum_offset_size(store).code));
  if (flat_columns_.contains(store.space)) flat_columns_[store.space] = column;
  Size below;
  const std::vector<int> space = store.space == kRowSpace ? std::vector<int>() : body_.spaces[store.space];
  for (size_t v = space.size(); v-- > 0;) {
    const Size size = dimensions_.of(body_.variables[space[v]]);
    const bool is_part = below.value > 1 || v > 0;
    Code value = is_part ? parenthesized(column) : column;
    if (below.value > 1) value = code("{} / {}", value, parenthesized(below.code));
    if (v > 0) value = code("{} % {}", value, parenthesized(size.code));
    variables_[space[v]] = is_part ? code("({})", value) : value;
    below = size * below;
  }
  print_direct(s, "total");
  variables_ = saved;
  flat_columns_ = saved_columns;
}

}  // namespace hydrac::codegen
