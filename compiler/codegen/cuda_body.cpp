#include "codegen/cuda_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

CudaBodyPrinter::CudaBodyPrinter(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu)
    : BodyNames(graph, node,
                {"r", "i", "k", "j", "lanes", "layer", "workspace", "tile", "share", "column", "total",
                 "first", "fetch", "shared", "hydrac"}),
      gpu_(gpu),
      layout_(cuda_layout(graph, node, gpu)),
      walks_rows_(!sums_.empty()),
      text_(
          body_, [this](ExprId id) { return value_name(id); },
          [this](const ir::Expr& e) { return const_cast<CudaBodyPrinter*>(this)->load_text(e); }, variables_,
          kCudaDialect),
      reuse_(plan_reuse()) {}

CudaKernels CudaBodyPrinter::print() {
  CudaKernels kernels;
  CudaKernel kernel;
  kernel.comment = extents_comment();
  kernel.takes_workspace = !sums_.empty() && !sums_are_direct();
  for (size_t i = 0; i < body_.exprs.size(); ++i)
    kernel.takes_layer |= live_[i] && body_.exprs[i].op == ExprOp::layer;
  kernel.launch = {layout_.blocks * layout_.tiles, layout_.threads(), 0};
  if (layout_.shape == Shape::flat) {
    int64_t threads = body_.row_count();
    for (const Stage& stage : stages_) {
      for (const Loop& loop : stage.loops)
        threads = body_.row_count() * (columns(loop.space).width / columns(loop.space).vector);
    }
    kernel.launch.grid = (threads + layout_.threads() - 1) / layout_.threads();
    if (kernel.launch.grid == 1) kernel.launch.block = static_cast<int>((threads + 31) / 32 * 32);
  }
  Writer head;
  head.line(fmt::format("extern \"C\" __global__ void {} {}({}) {{", launch_bounds(), kNamePlaceholder,
                        parameters(kernel)));
  out_ = Writer(1);
  out_.line("using namespace hydrac;");
  print_uniform();
  if (layout_.shape == Shape::flat) {
    print_flat();
  } else if (walks_rows_) {
    print_row_walk();
  } else {
    print_rows();
  }
  kernel.text = head.text() + out_.text() + "}\n";
  kernel.launch.shared_bytes = ahead_bytes_;
  const bool finishes = kernel.takes_workspace;
  if (finishes) kernels.workspace_bytes = layout_.blocks * sum_width_ * 4;
  kernels.kernels.push_back(std::move(kernel));
  if (finishes) kernels.kernels.push_back(finishing_kernel());
  return kernels;
}

// Registers for as many blocks of a multiprocessor as the layout counts on.
std::string CudaBodyPrinter::launch_bounds() const {
  if (!walks_rows_) return fmt::format("__launch_bounds__({})", layout_.threads());
  return fmt::format("__launch_bounds__({}, {})", layout_.threads(), layout_.blocks_per_sm);
}

// Pointers that alias nothing which is written say so; of the others, a kernel loads first and stores then.
std::string CudaBodyPrinter::parameters(CudaKernel& kernel) {
  std::vector<std::string> list;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const int operand = static_cast<int>(o);
    if (operand_names_[o].empty() || !is_used(operand)) continue;
    const bool is_written = body_.operands[o].output >= 0;
    const ir::ValueId memory = storage_of(graph_, use_of(operand).value);
    bool is_read_elsewhere = false;
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      const ir::Expr& expr = body_.exprs[i];
      is_read_elsewhere |= live_[i] && expr.op == ExprOp::load && expr.operand != operand &&
                           storage_of(graph_, use_of(expr.operand).value) == memory;
    }
    const bool aliases = is_written ? is_read_elsewhere : is_overwritten(operand);
    list.push_back(fmt::format("{}{}* {}{}", is_written ? "" : "const ", c_type(operand),
                               aliases ? "" : "__restrict__ ", operand_names_[o]));
    kernel.arguments.push_back(use_of(operand));
  }
  if (kernel.takes_workspace) list.push_back("float* __restrict__ workspace");
  if (kernel.takes_layer) list.push_back("int layer");
  return fmt::format("{}", fmt::join(list, ", "));
}

void CudaBodyPrinter::define(ExprId id) {
  const std::string text = definition(id);
  names_[id] = unique(wanted_name(id));
  out_.line(fmt::format("const {} {} = {};", codegen::c_type(body_.exprs[id].type), names_[id], text));
}

// Whether the value carries no more than the precision of a 16-bit number of its own size.
bool CudaBodyPrinter::has_16_bits(ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  return (expr.op == ExprOp::load && size_of(body_.operands[expr.operand].dtype) == 2) ||
         (expr.op == ExprOp::round_to && size_of(expr.dtype) == 2);
}

// The function for e^argument. A difference to a 16-bit number is no better than that number.
std::string_view CudaBodyPrinter::exp_name(ExprId argument) const {
  const ir::Expr& expr = body_.exprs[argument];
  const bool is_coarse = has_16_bits(argument) || (expr.op == ExprOp::sub && has_16_bits(expr.args[0]));
  return is_coarse ? "exp_of_16_bits" : "hydrac::exp";
}

std::string CudaBodyPrinter::definition(ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  if (expr.op != ExprOp::exp || expr.type != ir::ExprType::f32) return text_.definition(id);
  return fmt::format("{}({})", exp_name(expr.args[0]), text_.of(expr.args[0]));
}

// The variable that holds a value, or its text where that differs from other targets'.
std::string CudaBodyPrinter::value_name(ExprId id) const {
  if (!names_[id].empty() || body_.exprs[id].op != ExprOp::exp) return names_[id];
  return definition(id);
}

void CudaBodyPrinter::print_uniform() {
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const auto id = static_cast<ExprId>(i);
    if (live_[i] && deps_[i].uniform && deps_[i].space == kRowSpace && deserves_name(id)) define(id);
  }
}

// ---- the three shapes

void CudaBodyPrinter::print_flat() {
  int space = kRowSpace;
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) space = loop.space;
  }
  const int64_t a_row = space == kRowSpace ? 1 : columns(space).width / columns(space).vector;
  const int64_t chunks = body_.row_count() * a_row;
  if (chunks == 1) {
    out_.line("if (threadIdx.x != 0) return;");
  } else {
    out_.line(chunks < (int64_t{1} << 31)
                  ? fmt::format("const unsigned i = blockIdx.x * {} + threadIdx.x;", layout_.threads())
                  : fmt::format("const std::int64_t i = blockIdx.x * std::int64_t{{{}}} + threadIdx.x;",
                                layout_.threads()));
    if (chunks % layout_.threads() != 0) out_.line(fmt::format("if (i >= {}) return;", chunks));
  }
  const std::string index = chunks == 1 ? "0" : "i";
  out_.line(fmt::format("[[maybe_unused]] const std::int64_t r = {};",
                        a_row == 1 ? index : fmt::format("{} / {}", index, a_row)));
  if (space != kRowSpace) {
    const int vector = columns(space).vector;
    std::string column = body_.row_count() == 1 ? index
                         : a_row == 1           ? "0"
                                                : fmt::format("{} % {}", index, a_row);
    column = fmt::format("static_cast<int>({})", column);
    if (vector > 1) column += fmt::format(" * {}", vector);
    const std::vector<int>& variables = body_.spaces[space];
    const std::string flat = variables.size() == 1 ? variables_[variables[0]] : "column";
    out_.line(fmt::format("[[maybe_unused]] const int {} = {};", flat, column));
    int64_t below = 1;
    for (size_t v = variables.size(); variables.size() > 1 && v-- > 0;) {
      const int64_t size = body_.variables[variables[v]].size;
      std::string value = below == 1 ? flat : fmt::format("{} / {}", flat, below);
      if (v > 0) value += fmt::format(" % {}", size);
      out_.line(fmt::format("[[maybe_unused]] const int {} = {};", variables_[variables[v]], value));
      below *= size;
    }
  }
  print_row();
}

void CudaBodyPrinter::print_lanes() {
  out_.line(fmt::format("RowLanes<{}, {}> lanes;", layout_.lanes, layout_.rows));
}

void CudaBodyPrinter::print_rows() {
  print_lanes();
  const int64_t rows = body_.row_count();
  out_.line(
      layout_.rows == 1
          ? "const std::int64_t r = blockIdx.x;"
          : fmt::format("const std::int64_t r = blockIdx.x * std::int64_t{{{}}} + lanes.row;", layout_.rows));
  if (rows % layout_.rows != 0) out_.line(fmt::format("if (r >= {}) return;", rows));
  print_row();
}

void CudaBodyPrinter::print_row_walk() {
  print_lanes();
  std::string block = "blockIdx.x";
  if (layout_.shape == Shape::tiles) {
    out_.line(layout_.tiles == 1 ? "const int tile = 0;"
              : layout_.blocks == 1
                  ? "const int tile = blockIdx.x;"
                  : fmt::format("const int tile = blockIdx.x % {}, share = blockIdx.x / {};", layout_.tiles,
                                layout_.tiles));
    if (layout_.tiles > 1) block = layout_.blocks == 1 ? "0" : "share";
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
  std::string first = layout_.rows == 1 ? block : fmt::format("{} * {} + lanes.row", block, layout_.rows);
  const int64_t step = layout_.blocks * layout_.rows;
  declare_ahead();
  if (!ahead_.empty()) {
    print_fetch();
    out_.line(fmt::format("const std::int64_t first = {};", first));
    fetch_first();
    first = "first";
  }
  const bool only_reads =
      std::ranges::none_of(body_.stores, [](const Store& store) { return store.kind == StoreKind::store; });
  if (only_reads && layout_.lanes * layout_.rows < 512 && layout_.shape == Shape::tiles)
    out_.line("#pragma unroll 4");
  out_.open(fmt::format("for (std::int64_t r = {}; r < {}; {}) {{", first, body_.row_count(),
                        step == 1 ? "++r" : fmt::format("r += {}", step)));
  if (!ahead_.empty()) out_.line("wait_copies();");
  print_row();
  out_.close();
  print_partial_sums();
}

// ---- one row

// The row's text is written first, so that the pointers and variables it needs are known, and put behind
// them.
void CudaBodyPrinter::print_row() {
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) declare_columns(loop.space);
  }
  for (size_t level = 0; level < stages_.size(); ++level) {
    print_row_values(static_cast<int>(level));
    if (loads_shared_row_values(static_cast<int>(level))) out_.line("lanes.sync();");
    for (const Loop& loop : stages_[level].loops) print_loop(loop);
    for (int s : stages_[level].row_stores) print_row_store(body_.stores[s]);
  }
  const std::string row = out_.text();
  out_ = std::move(outside);
  print_row_variables();
  print_row_pointers();
  out_.append(row);
}

void CudaBodyPrinter::print_row_variables() {
  if (!needs_row_variables_) return;
  const bool is_small = body_.row_count() < (int64_t{1} << 31);  // 32-bit divisions are far cheaper
  int64_t below = 1;
  for (int v = body_.row_variables; v-- > 0;) {
    const int64_t size = body_.variables[v].size;
    std::string value = is_small && (below > 1 || v > 0) ? "static_cast<unsigned>(r)" : "r";
    if (below > 1) value += fmt::format(" / {}", below);
    if (v > 0) value += fmt::format(" % {}", size);
    out_.line(fmt::format("[[maybe_unused]] const std::int64_t {} = {};", variables_[v], value));
    below *= size;
  }
}

void CudaBodyPrinter::print_row_pointers() {
  for (const auto& [key, name] : row_pointers_) {
    const bool is_written = body_.operands[key.first].output >= 0;
    out_.line(fmt::format("{}{}* {} = {} + {};", is_written ? "" : "const ", c_type(key.first), name,
                          operand_names_[key.first], key.second));
  }
}

void CudaBodyPrinter::print_row_values(int level) {
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const auto id = static_cast<ExprId>(i);
    const ir::Dependence& dep = deps_[i];
    if (!live_[i] || dep.space != kRowSpace || dep.uniform || dep.level != level) continue;
    if (is_reduction(body_.exprs[i].op) || !deserves_name(id) || !names_[i].empty()) continue;
    define(id);
  }
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
  if (store.kind != StoreKind::store) {
    add_to_sum(static_cast<int>(&store - body_.stores.data()));
    return;
  }
  std::string guard;
  if (layout_.lanes > 1) guard = "if (lanes.lane == 0) ";
  if (layout_.shape == Shape::flat) {
    for (const Stage& stage : stages_) {
      for (const Loop& loop : stage.loops)
        guard = fmt::format("if ({} == 0) ", body_.spaces[loop.space].size() == 1
                                                 ? variables_[body_.spaces[loop.space][0]]
                                                 : "column");
    }
  }
  out_.line(fmt::format("{}{} = {};", guard, element(store.operand, store.index),
                        narrowed(store.operand, text_.of(store.value))));
}

CudaKernels cuda_body_kernels(const ir::Graph& graph, const ir::Node& fused, const targets::Target& gpu) {
  CudaKernels kernels = CudaBodyPrinter(graph, fused, gpu).print();
  const std::string name = std::get<std::string>(fused.attributes.at("name"));
  kernels.kernels[0].name = name;
  for (size_t k = 1; k < kernels.kernels.size(); ++k) kernels.kernels[k].name = name + "_sums";
  return kernels;
}

}  // namespace hydrac::codegen
