#include "codegen/cuda_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "codegen/kernel_table.h"
#include "codegen/parameter_list.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;
using Shape = CudaLayout::Shape;

namespace {

std::set<std::string> reserved_names(const ir::Node& node) {
  std::set<std::string> names = {"r",        "i",     "k",        "j",         "lanes", "layer", "workspace",
                                 "tile",     "share", "column",   "total",     "first", "fetch", "shared",
                                 "load",     "store", "element",  "larger",    "max",   "min",   "reduce",
                                 "prefetch", "plain", "is_plain", "specialize"};
  if (node.product.value != ir::kNoValue)
    names.insert({"left", "right", "in", "sum", "sums", "partials", "begin", "problem", "epilogue"});
  return names;
}

// The expressions that are computed from 16-bit numbers, be it among others: what they lack is far more than
// what an approximation of a function adds.
std::vector<bool> from_16_bits(const ir::Body& body) {
  std::vector<bool> result(body.exprs.size());
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    const ir::Expr& expr = body.exprs[i];
    const bool is_narrow = expr.op == ExprOp::load ? size_of(body.operands[expr.operand].dtype) == 2
                                                   : expr.op == ExprOp::round_to && size_of(expr.dtype) == 2;
    result[i] =
        is_narrow || std::ranges::any_of(expr.args, [&](ExprId arg) { return arg >= 0 && result[arg]; });
  }
  return result;
}

// Of exp and sigmoid: other functions are no shorter for numbers of 16 bits.
bool has_coarse_form(const ir::Expr& expr) {
  return (expr.op == ExprOp::exp || expr.op == ExprOp::sigmoid) && expr.type == ir::ExprType::f32;
}

}  // namespace

CudaBodyPrinter::CudaBodyPrinter(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu)
    : BodyNames(graph, node, reserved_names(node)),
      gpu_(gpu),
      layout_(cuda_layout(graph, node, gpu)),
      from_16_bits_(from_16_bits(body_)),
      walks_rows_(!sums_.empty() || node.product.value != ir::kNoValue),
      text_(
          body_, [this](ExprId id) { return value_name(id); },
          [this](const ir::Expr& e) { return const_cast<CudaBodyPrinter*>(this)->load_text(e); },
          [this](ExprId constant, ExprId beside) { return constant_text(constant, beside); },
          [this](const ir::Affine& position) { return position_text(position); }, variables_, kCudaDialect),
      reuse_(plan_reuse()) {}

CudaKernels CudaBodyPrinter::print() {
  if (node_.product.value != ir::kNoValue) return print_product();
  CudaKernels kernels;
  CudaKernel kernel;
  kernel.comment = comment();
  kernel.takes_workspace = !sums_.empty() && !sums_are_direct();
  kernel.takes_layer = takes_layer();
  kernel.launch.block = layout_.threads();
  lay_out_grid(kernel.launch);
  if (layout_.shape == Shape::flat && kernel.launch.grid == 1) {
    int64_t threads = body_.row_count();
    for (const Stage& stage : stages_) {
      for (const Loop& loop : stage.loops) threads *= vectors(loop.space).value;
    }
    kernel.launch.block = static_cast<int>((threads + 31) / 32 * 32);
  }
  const std::string head = fmt::format("extern \"C\" __global__ void {} {}{}", launch_bounds(),
                                       kNamePlaceholder, parameters(kernel));
  out_ = Writer(1);
  print_uniform();
  if (layout_.shape == Shape::flat) {
    print_flat();
  } else if (walks_rows_) {
    print_row_walk();
  } else {
    print_rows();
  }
  const std::string constants = constants_text(out_.text());
  kernel.text = head + opening_text(gpu_) + constants + out_.text() + "}\n";
  kernel.launch.shared_bytes = ahead_bytes_;
  const bool finishes = kernel.takes_workspace;
  if (finishes) kernels.workspace_bytes = layout_.blocks * sum_width_ * 4;
  kernels.kernels.push_back(std::move(kernel));
  if (finishes) kernels.kernels.push_back(finishing_kernel());
  return kernels;
}

bool CudaBodyPrinter::takes_layer() const {
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (live_[i] && body_.exprs[i].op == ExprOp::layer) return true;
  }
  return false;
}

// Registers for as many blocks of a multiprocessor as the layout counts on.
std::string CudaBodyPrinter::launch_bounds() const {
  if (!walks_rows_) return fmt::format("__launch_bounds__({})", layout_.threads());
  return fmt::format("__launch_bounds__({}, {})", layout_.threads(), layout_.blocks_per_sm);
}

// Pointers that alias nothing which is written say so; of the others, a kernel loads first and stores then.
// What a kernel only reads says nothing where it waits for the kernel that writes it: see opening_text.
std::string CudaBodyPrinter::parameters(CudaKernel& kernel) {
  ParameterList list;
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
    const bool aliases = is_written ? is_read_elsewhere : is_overwritten(operand) || waits_for_previous(gpu_);
    list.add(fmt::format("{}{}* {}{}", is_written ? "" : "const ", c_type(operand),
                         aliases ? "" : "__restrict__ ", operand_names_[o]),
             body_.operands[o].shape);
    kernel.arguments.push_back(use_of(operand));
    kernel.parameters.push_back(operand_names_[operand]);
  }
  if (kernel.takes_workspace)
    list.add("float* __restrict__ workspace",
             {{layout_.blocks, ""}, {sum_width_, sum_width_ == 1 ? "1" : "kSums"}});
  if (kernel.takes_layer) list.add("int layer");
  return list.text();
}

void CudaBodyPrinter::define(ExprId id) {
  const std::string text = definition(id);
  names_[id] = unique(wanted_name(id));
  out_.line(fmt::format("const {} {} = {};", codegen::c_type(body_.exprs[id].type), names_[id], text));
}

// The function for e^argument, or for argument's sigmoid.
std::string CudaBodyPrinter::function_name(ExprOp op, ExprId argument) const {
  return std::string(to_string(op)) + (from_16_bits_[argument] ? "_of_16_bits" : "");
}

// "r * C + c, j" for the element "r * C + c + j" of a chunk that begins with a multiple of 4: so neighbours
// share their random bits. Otherwise the element.
std::string CudaBodyPrinter::random_element(ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  std::string text = text_.of(id);
  if (expr.op != ExprOp::position || !names_[id].empty() || deps_[id].space == kRowSpace ||
      columns(deps_[id].space).vector % 4 != 0)
    return text;
  const ir::Affine& position = expr.index[0].affine;
  const int inner = body_.spaces[deps_[id].space].back();
  const bool begins_aligned =
      position.constant % 4 == 0 && std::ranges::all_of(position.terms, [&](const auto& term) {
        return term.first == inner ? term.second == 1
                                   : term.second % 4 == 0 || body_.variables[term.first].size == 1;
      });
  const std::string end = text.ends_with('}') ? "}" : "", j = " + j" + end;
  if (!begins_aligned || !text.ends_with(j)) return text;
  text.resize(text.size() - j.size());
  return text + end + ", j";
}

std::string CudaBodyPrinter::definition(ExprId id) const {
  const ir::Expr& expr = body_.exprs[id];
  if (plain_.contains(id)) return plain_definition(id);
  if (expr.op == ExprOp::random_16_bits)
    return fmt::format("random_16_bits({}, {})", text_.of(expr.args[0]), random_element(expr.args[1]));
  if (!has_coarse_form(expr)) return text_.definition(id);
  return fmt::format("{}({})", function_name(expr.op, expr.args[0]), text_.of(expr.args[0]));
}

// The variable that holds a value, or its text where that differs from other targets'.
std::string CudaBodyPrinter::value_name(ExprId id) const {
  if (!names_[id].empty()) return names_[id];
  if (plain_.contains(id)) return "(" + plain_definition(id) + ")";
  const ir::Expr& expr = body_.exprs[id];
  return has_coarse_form(expr) || expr.op == ExprOp::random_16_bits ? definition(id) : "";
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
  const Size rows = rows_size();
  const Size a_row = space == kRowSpace ? Size{} : vectors(space);
  const int64_t chunks = rows.value * a_row.value;
  // With one space, variables are those of the rows and then the columns: what the flat index counts.
  counts_elements_ = chunks > 1 && static_cast<int>(body_.spaces.size()) == (space == kRowSpace ? 0 : 1);
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  print_row();
  const std::string row = out_.text();
  out_ = std::move(outside);
  if (chunks == 1) {
    out_.line("if (threadIdx.x != 0) return;");
  } else {
    const bool is_small = chunks < (int64_t{1} << 31);
    out_.line(is_small ? "const unsigned i = blockIdx.x * kThreads + threadIdx.x;"
                       : "const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;");
    const Size all = space == kRowSpace ? rows : exact_quotient(rows * width_of(space), vector(space));
    if (chunks % layout_.threads() != 0) out_.line(fmt::format("if (i >= {}) return;", all.text));
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
  if (only_reads && layout_.lanes * layout_.rows < 512 && layout_.shape == Shape::tiles)
    out_.line("#pragma unroll 4");
  const Size step = blocks() * block_rows();
  out_.open(fmt::format("for (std::int64_t r = {}; r < {}; {}) {{", first, rows_size().text,
                        step.value == 1 ? "++r" : "r += " + step.text));
  if (!ahead_.empty() && !walks_ahead()) out_.line("wait_copies();");
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
  const std::string pointers = row_pointers();
  print_row_variables(pointers + row);
  out_.append(pointers + row);
}

void CudaBodyPrinter::print_row_variables(const std::string& named_by) {
  if (!needs_row_variables_) return;
  const bool is_small = body_.row_count() < (int64_t{1} << 31);  // 32-bit divisions are far cheaper
  for (int v = body_.row_variables; v-- > 0;) {
    if (!ir::has_word(named_by, variables_[v])) continue;
    const Size below = rows_below(v);
    std::string value = is_small && (below.value > 1 || v > 0) ? "static_cast<unsigned>(r)" : "r";
    if (below.value > 1) value += fmt::format(" / {}", parenthesized(below.text));
    if (v > 0) value += fmt::format(" % {}", parenthesized(dimensions_.of(body_.variables[v]).text));
    out_.line(fmt::format("const std::int64_t {} = {};", variables_[v], value));
  }
}

std::string CudaBodyPrinter::row_pointers() const {
  Writer pointers(out_.indent());
  for (const auto& [key, name] : row_pointers_) {
    const bool is_written = body_.operands[key.first].output >= 0;
    const bool is_epilogue = node_.product.value != ir::kNoValue;
    pointers.line(fmt::format("{}{}* {} = {} + {};", is_written ? "" : "const ", c_type(key.first), name,
                              operand_names_[key.first],
                              is_epilogue ? in_32_bits(key.first, key.second) : key.second));
  }
  return pointers.text();
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

CudaKernels cuda_body_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Node fused = node.op == "fused_product" ? epilogue_of(node) : node;
  CudaKernels kernels = CudaBodyPrinter(graph, fused, gpu).print();
  const std::string name = kernel_name(std::get<std::string>(fused.attributes.at("name")));
  kernels.kernels[0].name = name;
  for (size_t k = 1; k < kernels.kernels.size(); ++k) kernels.kernels[k].name = name + "_sums";
  return kernels;
}

}  // namespace hydrac::codegen
