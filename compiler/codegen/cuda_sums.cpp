#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "codegen/parameter_list.h"

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

// The sum over rows that a sum over columns is for, where nothing else reads that: then threads add up over
// their rows, and meet once.
std::optional<int> CudaBodyPrinter::summed_by(ExprId reduction) const {
  const ir::Expr& expr = body_.exprs[reduction];
  if (layout_.shape != CudaLayout::Shape::rows || expr.op != ExprOp::sum || columns(expr.space).steps > 1)
    return std::nullopt;
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (live_[i] && std::ranges::count(body_.exprs[i].args, reduction) > 0) return std::nullopt;
  }
  std::optional<int> only;
  for (size_t s = 0; s < body_.stores.size(); ++s) {
    if (body_.stores[s].value != reduction) continue;
    if (only || !is_sum(body_.stores[s].kind) || body_.stores[s].space != kRowSpace) return std::nullopt;
    only = static_cast<int>(s);
  }
  return only;
}

// Whether threads do nothing else in a row than to add to such sums: no row makes them wait for each other.
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
      sum_names_[s] = name;
      const std::string offset = sum_offset(store) == 0 ? "" : " + " + sum_offset_size(store).text;
      out_.line(fmt::format("float* {} = workspace + blockIdx.x * kSums{};", name, offset));
      out_.line(fmt::format("for (int i = lanes.lane; i < {}; i += kLanes) {}[i] = 0.0f;",
                            width_of(store.space).text, name));
    } else if (store.space == kRowSpace) {
      sum_names_[s] = name;
      out_.line(fmt::format("float {} = 0.0f;", name));
    } else {
      sum_names_[s] = per_element(name, store.space);
      const std::string array = array_of(name, store.space);
      out_.line(fmt::format("float {} = {};", array, array == name ? "0.0f" : "{}"));
    }
  }
  // A row in memory belongs to the lanes that cleared it in another order than they add to it.
  if (std::ranges::any_of(sums_, [&](int s) { return !sums_in_registers(s); })) out_.line("__syncthreads();");
}

void CudaBodyPrinter::add_to_sum(int s) {
  const Store& store = body_.stores[s];
  if (is_reduction(body_.exprs[store.value].op) && summed_by(store.value)) return;  // the row's pass adds
  std::string sum = sum_names_.at(s);
  if (!sums_in_registers(s)) {
    const ir::Affine position = sum_position(store) + ir::Affine{-sum_offset(store), {}};
    sum += fmt::format("[{}]", position_text(position));
  }
  out_.line(fmt::format("{} += {};", sum, text_.of(store.value)));
}

int64_t CudaBodyPrinter::floats_of_sum(int s) const {
  if (!sums_in_registers(s)) return 0;
  const int space = body_.stores[s].space;
  return space == kRowSpace ? 1 : int64_t{columns(space).chunks} * columns(space).vector;
}

// What add_rows takes for each float of a thread.
int64_t CudaBodyPrinter::bytes_to_add_rows() const {
  return layout_.rows == 1 ? 0 : int64_t{(layout_.rows + 1) / 2} * layout_.lanes * 4;
}

// Whether the rows' sums meet in shared memory all at once: a kernel declares 48 KiB at most.
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
    out_.line(fmt::format("RunningLargest {}({});", name, operand_names_[store.operand]));
  }
}

void CudaBodyPrinter::raise(int s) {
  out_.line(fmt::format("{}.see({});", raised_.at(body_.stores[s].operand), text_.of(body_.stores[s].value)));
}

void CudaBodyPrinter::print_raised() {
  for (const auto& [operand, name] : raised_)
    out_.line(fmt::format("{}.{}();", name, has_whole_blocks_ ? "raise_by_block" : "raise"));
}

// At most: what sums over rows and reductions of a row declare.
int64_t CudaBodyPrinter::static_shared_bytes() const {
  int64_t floats = 0;
  for (int s : sums_) floats += floats_of_sum(s);
  return floats * bytes_to_add_rows() + (layout_.rows == 1 ? 512 : 4096);
}

void CudaBodyPrinter::print_partial_sums() {
  out_.line("");
  out_.line(sums_are_direct() ? "// This block has seen all rows of its columns."
                              : "// The sums over this block's rows: one row of the workspace a block.");
  std::vector<std::string> arrays, unreduced;
  for (int s : sums_) {
    if (sums_in_registers(s)) arrays.push_back(sum_names_.at(s).substr(0, sum_names_.at(s).find('[')));
    const ExprId value = body_.stores[s].value;
    if (is_reduction(body_.exprs[value].op) && summed_by(value)) unreduced.push_back(arrays.back());
  }
  if (layout_.lanes > 1 && !unreduced.empty())
    out_.line(fmt::format("lanes.sum({});", fmt::join(unreduced, ", ")));
  if (layout_.rows > 1 && adds_rows_together()) {
    out_.line(fmt::format("add_rows(lanes, {});", fmt::join(arrays, ", ")));
  } else if (layout_.rows > 1) {
    for (const std::string& array : arrays) out_.line(fmt::format("add_rows(lanes, {});", array));
  }
  if (layout_.rows > 1) out_.open("if (lanes.row == 0) {");
  for (int s : sums_) {
    if (sums_in_registers(s)) print_partial(s);
  }
  if (layout_.rows > 1) out_.close();
}

void CudaBodyPrinter::print_partial(int s) {
  const Store& store = body_.stores[s];
  const std::string block =
      layout_.shape == CudaLayout::Shape::tiles && layout_.tiles > 1 ? "share" : "blockIdx.x";
  if (store.space == kRowSpace) {
    const std::string guard = layout_.lanes > 1 ? "if (lanes.lane == 0) " : "";
    if (sums_are_direct()) {
      if (layout_.lanes > 1) out_.open("if (lanes.lane == 0) {");
      print_direct(s, sum_names_.at(s));
      if (layout_.lanes > 1) out_.close();
    } else {
      const std::string offset = sum_offset(store) == 0 ? "" : " + " + sum_offset_size(store).text;
      out_.line(
          fmt::format("{}workspace[{}{}{}] = {};", guard, block, sums_text(), offset, sum_names_.at(s)));
    }
    return;
  }
  const ColumnLayout& layout = columns(store.space);
  declare_columns(store.space);
  open_chunks(store.space);
  ir::Affine column = sum_position(store);
  column.constant = 0;
  const std::string offset = sum_offset(store) == 0 ? "" : " + " + sum_offset_size(store).text;
  const std::string place = fmt::format("{}{}{} + {}", block, sums_text(), offset, position_text(column));
  std::string array = sum_names_.at(s);
  if (layout.vector > 1) array = array.substr(0, array.size() - 3);
  if (sums_are_direct()) {
    open_elements(store.space);
    print_direct(s, sum_names_.at(s));
    close_elements(store.space);
  } else if (layout.vector == 1) {
    out_.line(fmt::format("workspace[{}] = {};", place, array));
  } else {
    int64_t width = std::min(4, layout.vector);
    while (sum_width_ % width != 0 || sum_offset(store) % width != 0) width /= 2;
    out_.line(fmt::format("store_columns<{}>(workspace + {}, {});",
                          access_text(store.space, static_cast<int>(width)), place, array));
  }
  close_chunks(store.space);
}

// The sum where it belongs.
void CudaBodyPrinter::print_direct(int s, const std::string& sum) {
  const Store& store = body_.stores[s];
  const std::string to = element(store.operand, store.index);
  const bool adds = store.kind == StoreKind::add_column_sum;
  if (size_of(body_.operands[store.operand].dtype) == 4)
    return out_.line(fmt::format("{} {} {};", to, adds ? "+=" : "=", sum));
  out_.line(fmt::format(
      "{} = {};", to,
      narrowed(store.operand, adds ? fmt::format("{} + {}", widened(store.operand, to), sum) : sum)));
}

CudaKernel CudaBodyPrinter::finishing_kernel(int64_t partials) {
  CudaKernel kernel;
  std::vector<int> operands;
  ParameterList list;
  for (int s : sums_) {
    const int operand = body_.stores[s].operand;
    if (std::ranges::find(operands, operand) != operands.end()) continue;
    operands.push_back(operand);
    kernel.arguments.push_back(use_of(operand));
    kernel.parameters.push_back(operand_names_[operand]);
    list.add(fmt::format("{}* __restrict__ {}", c_type(operand), operand_names_[operand]),
             body_.operands[operand].shape);
  }
  list.add(fmt::format("const float* {}workspace", waits_for_previous(gpu_) ? "" : "__restrict__ "),
           {{partials, ""}, {sum_width_, sum_width_ == 1 ? "1" : "kSums"}});
  const int columns_a_block = sum_width_ < 16 ? 8 : 16, threads = 256;
  kernel.comment = "The second kernel of the sums: adds the blocks' partial sums, in a fixed order.";
  kernel.takes_workspace = true;
  const Size blocks = ceiling_quotient({sum_width_, "kSums"}, {columns_a_block, "kColumns"});
  kernel.launch = {blocks.value, threads, 0, blocks.text};
  Writer sizes;
  sizes.line(fmt::format("constexpr int kColumns = {};  // of a block", columns_a_block));
  sizes.line(fmt::format("constexpr int kPartials = {};  // rows of the workspace", partials));
  sizes.line(fmt::format("constexpr int kSums = {};", sums_size().text));
  sizes.line(fmt::format("constexpr int kThreads = {};  // of a block", threads));
  out_ = Writer(1);
  out_.line("const int column = blockIdx.x * kColumns + threadIdx.x % kColumns;");
  out_.line("const float total = sum_of_partials<kColumns, kPartials>(workspace, column, kSums);");
  const bool is_even = sum_width_ % columns_a_block == 0;
  out_.line(is_even ? "if (threadIdx.x >= kColumns) return;"
                    : "if (threadIdx.x >= kColumns || column >= kSums) return;");
  for (int s : sums_) {
    const Store& store = body_.stores[s];
    const int64_t first = sum_offset(store), end = first + sum_elements(store);
    const Size end_size = first == 0 ? width_of(store.space) : sum_offset_size(store) + width_of(store.space);
    const bool is_last = end == sum_width_;
    if (!is_last && first == 0) out_.open(fmt::format("if (column < {}) {{", end_size.text));
    if (!is_last && first > 0) out_.open(fmt::format("}} else if (column < {}) {{", end_size.text));
    if (is_last && first > 0) out_.open("} else {");
    const VariableNames saved = variables_;
    if (store.space != kRowSpace) {
      const std::vector<int>& space = body_.spaces[store.space];
      Size below;
      const std::string offset = parenthesized(sum_offset_size(store).text);
      for (size_t v = space.size(); v-- > 0;) {
        const Size size = dimensions_.of(body_.variables[space[v]]);
        const bool is_part = below.value > 1 || v > 0;
        std::string value = first == 0 ? "column" : fmt::format("column - {}", offset);
        if (is_part) value = parenthesized(value);
        if (below.value > 1) value += fmt::format(" / {}", parenthesized(below.text));
        if (v > 0) value += fmt::format(" % {}", parenthesized(size.text));
        variables_[space[v]] = is_part ? "(" + value + ")" : value;
        below = size * below;
      }
    }
    print_direct(s, "total");
    variables_ = saved;
    if (is_last && first > 0) out_.close();
    if (!is_last) out_.outdent();
  }
  kernel.text = fmt::format("{}extern \"C\" __global__ void __launch_bounds__({}) {}{}{}{}{}}}\n",
                            sizes_namespace(sizes.text()), of_sizes("kThreads"), kNamePlaceholder,
                            list.text(), opening_text(gpu_), using_sizes(), out_.text());
  return kernel;
}

}  // namespace hydrac::codegen
