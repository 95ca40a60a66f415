#include "codegen/cuda/body.h"

#include <algorithm>

#include "codegen/cuda/body_printer.h"
#include "codegen/kernel_table.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using Shape = CudaLayout::Shape;

namespace {

std::set<std::string> reserved_names(const ir::Node& node) {
  std::set<std::string> names = {"r",        "i",     "k",        "j",         "lanes", "layer", "workspace",
                                 "tile",     "share", "column",   "total",     "first", "fetch", "shared",
                                 "load",     "store", "element",  "larger",    "max",   "min",   "reduce",
                                 "prefetch", "plain", "is_plain", "specialize"};
  if (node.matmul.value != ir::kNoValue)
    names.insert({"left", "right", "tail_left", "tail_right", "in", "sum", "sums", "partials", "begin",
                  "problem", "epilogue", "pass", "passes", "reductions", "apply", "kept", "totals",
                  "partial"});
  return names;
}

// The expressions that depend on a 16-bit number. Its rounding error is far larger than the error of an
// approximate function.
std::vector<bool> from_16_bits(const ir::Body& body) {
  std::vector<bool> result(body.exprs.size());
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    const ir::Expr& expr = body.exprs[i];
    const bool is_narrow = expr.op == ExprOp::load
                               ? is_narrow_float(body.operands[expr.operand].dtype)
                               : expr.op == ExprOp::round_to && is_narrow_float(expr.dtype);
    result[i] =
        is_narrow || std::ranges::any_of(expr.args, [&](ExprId arg) { return arg >= 0 && result[arg]; });
  }
  return result;
}

// True for exp and sigmoid: other functions have no shorter form for 16-bit numbers.
bool has_coarse_form(const ir::Expr& expr) {
  return (expr.op == ExprOp::exp || expr.op == ExprOp::sigmoid) && expr.type == ir::ExprType::f32;
}

}  // namespace

CudaBodyPrinter::CudaBodyPrinter(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu)
    : BodyPrinter(graph, node, reserved_names(node), kCudaDialect),
      gpu_(gpu),
      layout_(cuda_layout(graph, node, gpu)),
      from_16_bits_(from_16_bits(body_)),
      walks_rows_(!sums_.empty() || node.matmul.value != ir::kNoValue),
      reuse_(plan_reuse()) {
  for (size_t space = 0; space < body_.spaces.size(); ++space) {
    if (body_.spaces[space].size() > 1)
      flat_columns_[static_cast<int>(space)] = named(flat_columns_.empty() ? "column" : unique("column"));
  }
}

CudaKernels CudaBodyPrinter::print() {
  if (node_.matmul.value != ir::kNoValue) return print_matmul();
  CudaKernels kernels;
  CudaKernel kernel;
  kernel.comment = comment();
  kernel.sharing = sharing();
  kernel.takes_workspace = !sums_.empty() && !sums_are_direct();
  kernel.takes_layer = takes_layer();
  kernel.launch.block = layout_.threads();
  lay_out_grid(kernel.launch);
  if (layout_.shape == Shape::flat && kernel.launch.grid == 1) {
    int64_t threads = body_.row_count();
    for (const Loop* loop : loops()) threads *= vectors(loop->space).value;
    kernel.launch.block = static_cast<int>((threads + 31) / 32 * 32);
  }
  block_threads_ = kernel.launch.block;
  any_rows_ = kernel.launch.rows.empty() ? rows_size() : named(rows_size().value, "rows");
  take_parameters(kernel);
  print_uniform();
  declare_raised();
  if (layout_.shape == Shape::flat) {
    print_flat();
  } else if (walks_rows_) {
    print_row_walk();
  } else {
    print_rows();
  }
  print_raised();
  kernel.launch.shared_bytes = ahead_bytes_;
  if (kernel.takes_workspace) bounds_.insert(fits_workspace(partial_bytes(partial_rows())));
  kernel.launch.bounds = bounds_;
  kernel.text.attributes = kernel_attributes(launch_bounds());
  open_body(kernel.text, gpu_);
  use_sizes(kernel.text);
  kernel.text.body.add(named_constants());
  kernel.text.body.add(std::move(out_));
  kernel.text.sizes = sizes_for(kernel.text.body.drop_unused(), kernel.launch);
  const bool finishes = kernel.takes_workspace;
  if (finishes) kernels.workspace_bytes = layout_.blocks * sum_width_ * 4;
  kernels.kernels.push_back(std::move(kernel));
  if (finishes) kernels.kernels.push_back(finishing_kernel(partial_rows()));
  return kernels;
}

// Registers for as many blocks of a multiprocessor as the layout counts on.
std::string CudaBodyPrinter::launch_bounds() const {
  return walks_rows_ ? fmt::format(", {}", layout_.blocks_per_sm) : "";
}

// Pointers that alias nothing written get __restrict__. For the others, the kernel loads before it stores.
// Read-only pointers get none if the kernel waits for the kernel that writes them: see open_body.
void CudaBodyPrinter::take_parameters(CudaKernel& kernel) {
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const int operand = static_cast<int>(o);
    if (operand_names_[o].empty() || !is_used(operand)) continue;
    if (kernel.takes_workspace && is_only_summed(operand)) continue;  // the finishing kernel's
    const bool is_written = body_.operands[o].output >= 0;
    const ir::ValueId memory = storage_of(graph_, use_of(operand).value);
    const bool is_read_elsewhere = std::ranges::any_of(live_, [&](ExprId id) {
      const ir::Expr& expr = body_.exprs[id];
      return expr.op == ExprOp::load && expr.operand != operand &&
             storage_of(graph_, use_of(expr.operand).value) == memory;
    });
    const bool aliases = is_written ? is_read_elsewhere : is_overwritten(operand) || waits_for_previous(gpu_);
    kernel.take(pointer_type(operand), operand_names_[o], body_.operands[o].shape, use_of(operand), !aliases);
  }
  if (kernel.takes_workspace)
    kernel.text.take("float*", "workspace",
                     {{layout_.blocks, "kBlocks"}, {sum_width_, sum_width_ == 1 ? "1" : "kSums"}}, true);
  if (kernel.takes_layer) kernel.text.take("int", "layer");
}

// The function for e^argument, or for argument's sigmoid.
std::string CudaBodyPrinter::function_name(ExprOp op, ExprId argument) const {
  return std::string(to_string(op)) + (from_16_bits_[argument] ? "_of_16_bits" : "");
}

// "r * C + c, j" for the element "r * C + c + j" of a chunk that begins at a multiple of 4, so that
// neighbours share their random bits. Otherwise the element.
Code CudaBodyPrinter::random_element(ExprId id) {
  if (const std::optional<Code> chunk = aligned_chunk(id)) return code("{}, j", *chunk);
  const ir::Expr& sum = body_.exprs[id];
  if (sum.op == ExprOp::add && names_[id].empty() && is_multiple_of_4(sum.args[1]))
    if (const std::optional<Code> chunk = aligned_chunk(sum.args[0]))
      return code("{} + {}, j", *chunk, text_.of(sum.args[1]));
  return text_.of(id);
}

// True for a product with a multiple of 4.
bool CudaBodyPrinter::is_multiple_of_4(ExprId id) const {
  const ir::Expr& product = body_.exprs[id];
  if (product.op != ExprOp::mul) return false;
  const ir::Expr& factor = body_.exprs[product.args[1]];
  return factor.op == ExprOp::constant && factor.type == ir::ExprType::i64 &&
         static_cast<int64_t>(factor.number) % 4 == 0;
}

// "r * C + c" of the position "r * C + c + j", where it is a multiple of 4.
std::optional<Code> CudaBodyPrinter::aligned_chunk(ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  if (expr.op != ExprOp::position || !names_[id].empty() || deps_[id].space == kRowSpace ||
      columns(deps_[id].space).vector % 4 != 0)
    return std::nullopt;
  const ir::Affine& position = expr.index[0].affine;
  const int inner = body_.spaces[deps_[id].space].back();
  const bool begins_aligned = std::ranges::all_of(position.terms, [&](const auto& term) {
    return term.first == inner ? term.second == 1
                               : term.second % 4 == 0 || body_.variables[term.first].size == 1;
  });
  const bool adds_element = element_variable_ == inner && position.constant == 0 && !position.terms.empty() &&
                            position.terms.back().first == inner;
  if (!begins_aligned || !adds_element) return std::nullopt;
  const Code element = std::exchange(variables_[inner], first_element_);
  element_variable_ = -1;
  const Code chunk = text_.of(id);
  variables_[inner] = element;
  element_variable_ = inner;
  return chunk;
}

Code CudaBodyPrinter::definition(ExprId id) {
  const ir::Expr& expr = body_.exprs[id];
  if (plain_.contains(id)) return plain_definition(id);
  if (expr.op == ExprOp::random_16_bits)
    return code("random_16_bits({}, {})", text_.of(expr.args[0]), random_element(expr.args[1]));
  if (!has_coarse_form(expr)) return text_.definition(id);
  return code("{}({})", function_name(expr.op, expr.args[0]), text_.of(expr.args[0]));
}

// The variable that holds a value, or its code where that differs from other targets'.
Code CudaBodyPrinter::value_name(ExprId id) {
  if (!names_[id].empty()) return names_[id];
  if (plain_.contains(id)) return code("({})", plain_definition(id));
  const ir::Expr& expr = body_.exprs[id];
  return has_coarse_form(expr) || expr.op == ExprOp::random_16_bits ? definition(id) : Code();
}

std::vector<program::Dimension> cuda_dimensions(const ir::Graph& graph, const targets::Target& gpu) {
  std::vector<program::Dimension> all = Dimensions(graph).all();
  all.push_back({kMultiprocessors, gpu.sms});
  std::ranges::sort(all, {}, &program::Dimension::symbol);
  return all;
}

CudaKernels cuda_body_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Node fused = node.op == ir::Op::fused_matmul ? epilogue_of(node) : node;
  CudaKernels kernels = CudaBodyPrinter(graph, fused, gpu).print();
  const std::string name = kernel_name(std::get<std::string>(fused.attributes.at("name")));
  kernels.kernels[0].name = name;
  for (size_t k = 1; k < kernels.kernels.size(); ++k) kernels.kernels[k].name = name + "_sums";
  return kernels;
}

CudaKernel cuda_finishing_kernel(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                 const Size& partials) {
  return CudaBodyPrinter(graph, node, gpu).finishing_kernel(partials);
}

}  // namespace hydrac::codegen
