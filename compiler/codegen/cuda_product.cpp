// A body behind a product: a struct that cuda/product/product.cuh, or cuda/small_product/small_product.cuh,
// calls as each eight columns of a row are ready.
#include "codegen/cuda_product.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/build_calls.h"
#include "codegen/cuda_body_printer.h"
#include "codegen/parameter_list.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using Kind = ColumnAccess::Kind;

cuda::ProductProblem product_problem(const ir::Graph& graph, const ir::Node& node,
                                     const targets::Target& gpu) {
  const program::GemmShape shape = product_shape(graph, node);
  return {.capability = gpu.capability,
          .is_bf16 = shape.c == ir::DType::bf16,
          .b_transposed = shape.transpose_b,
          .m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .paired = node.flag("paired"),
          .sums = static_cast<int>(node.integer("sums"))};
}

ProductTemplate product_template(const ir::Node& node, const cuda::ProductProblem& problem) {
  if (node.flag("small")) {
    const cuda::SmallProductTile tile = small_product_tile(problem);
    return {
        .header = "cuda/small_product/small_product.cuh",
        .function = "cuda::small_product",
        .config = "cuda::SmallProductConfig",
        .tile = fmt::format("cuda::SmallProductTile{{.panels = {}, .stages = {}}}", tile.panels, tile.stages),
        .launch = small_product_launch(problem, tile),
        .maps = {small_product_map_a(problem), small_product_map_b(problem)},
        .sums_rows = small_product_sums_rows(problem)};
  }
  const cuda::ProductTile tile = product_tile(problem);
  return {.header = "cuda/product/product.cuh",
          .function = "cuda::product",
          .config = "cuda::ProductConfig",
          .tile = fmt::format("cuda::ProductTile{{.rows = {}, .stages = {}}}", tile.rows, tile.stages),
          .launch = product_launch(problem),
          .maps = {product_map_a(problem), product_map_b(problem)},
          .sums_rows = product_sums_rows(problem)};
}

// ---- the struct

// The tensors in memory that the epilogue itself reads or writes; what sums are added to is the second
// kernel's.
std::vector<int> CudaBodyPrinter::epilogue_tensors() const {
  std::vector<int> tensors;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const int operand = static_cast<int>(o);
    const bool is_summed =
        std::ranges::any_of(sums_, [&](int s) { return body_.stores[s].operand == operand; });
    const bool is_register = is_product(operand) && body_.operands[o].output < 0;
    if (!operand_names_[o].empty() && is_used(operand) && !is_summed && !is_register)
      tensors.push_back(operand);
  }
  return tensors;
}

std::string CudaBodyPrinter::tensor_member(int operand) const {
  return fmt::format("{}{}* {}", body_.operands[operand].output >= 0 ? "" : "const ", c_type(operand),
                     operand_names_[operand]);
}

// Names eight columns of the product, or of each of its halves, as the parameters that bring them.
std::vector<std::string> CudaBodyPrinter::take_products() {
  const bool is_paired = product_problem(graph_, node_, gpu_).paired;
  std::vector<std::string> parameters(is_paired ? 2 : 1);
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Expr& expr = body_.exprs[i];
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || expr.op != ExprOp::load || !is_product(expr.operand)) continue;
    const bool is_second = expr.index.back().affine.constant > 0;
    const std::string name =
        is_paired && !body_.name_of(id).empty() ? body_.name_of(id) : operand_names_[expr.operand];
    columns_[id] = {unique(name + "_in"), {Kind::consecutive, kColumnsOfAnEpilogue}};
    parameters[is_second ? 1 : 0] = columns_[id].name;
  }
  const auto type = codegen::c_type(graph_.value(node_.product).dtype, kCudaDialect);
  for (std::string& parameter : parameters)
    parameter = fmt::format("const Vector<{}, {}>& {}", type, kColumnsOfAnEpilogue, parameter);
  return parameters;
}

// The loads of columns that depend on the row, or those that do not, under the names of what holds them.
std::vector<ExprId> CudaBodyPrinter::take_loads(bool invariant) {
  const int space = body_.stores[0].space;
  std::vector<ExprId> loads;
  std::set<std::string> fields;
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Expr& expr = body_.exprs[i];
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || expr.op != ExprOp::load || deps_[i].space != space || columns_.contains(id) ||
        is_invariant(id) != invariant)
      continue;
    std::string name = body_.name_of(id).empty() ? operand_names_[expr.operand] : body_.name_of(id);
    if (invariant) {
      name = unique(name + "_in");
    } else {
      while (!fields.insert(name).second) name += "_2";
      name = "in." + name;
    }
    columns_[id] = {name, column_access(graph_, node_, expr.operand, expr.index, space, deps_)};
    loads.push_back(id);
  }
  return loads;
}

std::string CudaBodyPrinter::load_member(ExprId load, const std::string& name) const {
  const std::string type = c_type(body_.exprs[load].operand);
  if (columns_.at(load).access.kind == Kind::constant) return fmt::format("{} {};", type, name);
  return fmt::format("Vector<{}, {}> {};", type, kColumnsOfAnEpilogue, name);
}

namespace {

std::string function_head(const std::string& result, const std::string& parameters,
                          const std::string& behind) {
  return fmt::format("__device__ {}({}){} {{", result, parameters, behind);
}

}  // namespace

// The number of an element of the operand, in 32 bits where these suffice: addresses are a good part of an
// epilogue's work.
std::string CudaBodyPrinter::in_32_bits(int operand, const std::string& number) const {
  const int64_t elements = element_count(graph_.value(storage_of(graph_, use_of(operand).value)).shape);
  return elements < (int64_t{1} << 32) ? fmt::format("static_cast<std::uint32_t>({})", number) : number;
}

// The number of the first element in tensors that lie as rows and columns count.
std::string CudaBodyPrinter::first_definition(int space) const {
  const Size width = width_of(space);
  const std::string number = fmt::format("r * {} + {}", as_factor(width), variables_[body_.spaces[space][0]]);
  const bool is_small = body_.row_count() * width.value < (int64_t{1} << 32);
  return is_small ? fmt::format("const auto first = static_cast<std::uint32_t>({});", number)
                  : fmt::format("const std::int64_t first = {};", number);
}

// What is the same for all rows of a thread's columns.
std::string CudaBodyPrinter::begin_function(const std::vector<ExprId>& loads) {
  const int space = body_.stores[0].space;
  const std::string& column = variables_[body_.spaces[space][0]];
  out_ = Writer(2);
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (live_[i] && deps_[i].uniform && deps_[i].space == ir::kRowSpace && !names_[i].empty())
      out_.line(fmt::format("{} = {};", names_[i], definition(static_cast<ExprId>(i))));
  }
  for (const ExprId id : loads) print_load(space, id);
  const std::string text = out_.text();
  out_ = Writer(1);
  out_.open(function_head("void begin", "int" + (ir::has_word(text, column) ? " " + column : ""), ""));
  out_.append(text);
  out_.close();
  return out_.text();
}

// The loads of a row, which are under way before the product is there.
std::string CudaBodyPrinter::load_function(const std::vector<ExprId>& loads) {
  const int space = body_.stores[0].space;
  const std::string& column = variables_[body_.spaces[space][0]];
  out_ = Writer(2);
  for (const ExprId id : loads) print_load(space, id);
  const std::string copies = out_.text();
  out_ = Writer(2);
  const std::string pointers = row_pointers();
  print_row_variables(pointers + copies);
  const std::string text = out_.text() + pointers + copies;
  for (const auto& [key, name] : row_pointers_) taken_.erase(name);
  row_pointers_.clear();
  needs_row_variables_ = false;
  const bool names_first = ir::has_word(text, "first");
  const auto parameter = [&](const std::string& type, const std::string& name) {
    return type + (names_first || ir::has_word(text, name) ? " " + name : "");
  };
  out_ = Writer(1);
  out_.open(function_head("Operands load", parameter("std::int64_t", "r") + ", " + parameter("int", column),
                          " const"));
  if (names_first) out_.line(first_definition(space));
  if (loads.empty()) {
    out_.line("return {};");
  } else {
    out_.line("Operands in;");
    out_.append(text);
    out_.line("return in;");
  }
  out_.close();
  return out_.text();
}

// The body itself.
std::string CudaBodyPrinter::apply_function(const std::vector<std::string>& products) {
  const int space = body_.stores[0].space;
  const std::string& column = variables_[body_.spaces[space][0]];
  out_ = Writer(2);
  print_row();
  const std::string row = out_.text();
  const bool names_first = ir::has_word(row, "first");
  out_ = Writer(1);
  out_.open(function_head("void operator()",
                          fmt::format("std::int64_t r, int {}, {}, const Operands&{}", column,
                                      fmt::join(products, ", "), ir::has_word(row, "in") ? " in" : ""),
                          ""));
  if (names_first) out_.line(first_definition(space));
  out_.append(row);
  out_.close();
  return out_.text();
}

std::string CudaBodyPrinter::epilogue_text() {
  const std::vector<std::string> products = take_products();
  const std::vector<ExprId> of_columns = take_loads(true), of_rows = take_loads(false);
  for (size_t s = 0; s < sums_.size(); ++s) sum_names_[sums_[s]] = fmt::format("sum[{}][j]", s);
  counts_elements_ = body_.spaces.size() == 1;
  Writer members(1);
  for (const std::string& line : named_constants()) members.line("static " + line);
  members.line(
      fmt::format("static constexpr int sums = {};  // over the rows, for each column", sums_.size()));
  members.open("struct Operands {");
  for (const ExprId id : of_rows)
    members.line(load_member(id, columns_.at(id).name.substr(std::string("in.").size())));
  members.close("};");
  for (const int operand : epilogue_tensors()) members.line(tensor_member(operand) + ";");
  if (takes_layer()) members.line("int layer;");
  if (!sums_.empty()) {
    members.line(fmt::format("float* partials[{}];", sums_.size()));
    members.line(fmt::format("float sum[{}][{}];", sums_.size(), kColumnsOfAnEpilogue));
  }
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || !deps_[i].uniform || deps_[i].space != ir::kRowSpace || !deserves_name(id)) continue;
    names_[i] = unique(wanted_name(id));
    members.line(fmt::format("{} {};", codegen::c_type(body_.exprs[i].type), names_[i]));
  }
  for (const ExprId id : of_columns) members.line(load_member(id, columns_.at(id).name));
  const std::string begin = begin_function(of_columns), load = load_function(of_rows),
                    apply = apply_function(products);
  return fmt::format("struct {}_epilogue {{\n{}\n{}{}{}}};\n", kNamePlaceholder, members.text(), begin, load,
                     apply);
}

// ---- the kernel

std::string CudaBodyPrinter::config_text() const {
  const cuda::ProductProblem problem = product_problem(graph_, node_, gpu_);
  const ProductTemplate used = product_template(node_, problem);
  const ir::Value& product = graph_.value(node_.product);
  const Size depth = dimensions_.of(graph_.value(node_.inputs[0]).shape.back());
  const std::string paired = node_.flag("small") ? "" : fmt::format("/*paired=*/{}, ", problem.paired);
  return fmt::format("  using Config = {}<{}, {}, {}, /*b_transposed=*/{}, {}\n      {}>;\n", used.config,
                     codegen::c_type(product.dtype, kCudaDialect), dimensions_.of(product.shape.back()).text,
                     depth.text, problem.b_transposed, paired, used.tile);
}

CudaKernel CudaBodyPrinter::product_kernel() {
  const ProductTemplate used = product_template(node_, product_problem(graph_, node_, gpu_));
  const cuda::ProductLaunch& launch = used.launch;
  CudaKernel kernel;
  kernel.comment = comment();
  kernel.header = used.header;
  kernel.takes_workspace = !sums_.empty();
  kernel.takes_layer = takes_layer();
  kernel.launch = {.grid = launch.grid,
                   .block = launch.threads,
                   .shared_bytes = static_cast<int64_t>(launch.shared_bytes),
                   .grid_text = std::to_string(launch.grid)};
  ParameterList list;
  std::vector<std::string> members;
  for (size_t i = 0; i < 2; ++i) {
    const ir::Value& matrix = graph_.value(node_.inputs[i]);
    const cuda::ProductMap& map = used.maps[i];
    kernel.maps.push_back({matrix.dtype, map.size[1], map.size[0], map.box[1], map.box[0]});
    kernel.arguments.push_back(node_.inputs[i]);
    kernel.parameters.emplace_back(i == 0 ? "left" : "right");
    list.add("const __grid_constant__ TensorMap " + kernel.parameters.back(), matrix.shape);
  }
  for (const int operand : epilogue_tensors()) {
    kernel.arguments.push_back(use_of(operand));
    kernel.parameters.push_back(operand_names_[operand]);
    list.add(tensor_member(operand), body_.operands[operand].shape);
    members.push_back(fmt::format(".{0} = {0}", operand_names_[operand]));
  }
  if (kernel.takes_workspace) {
    list.add("float* workspace", {{layout_.blocks, ""}, {sum_width_, sums_size().text}});
    members.emplace_back(".partials = {workspace}");
  }
  if (kernel.takes_layer) {
    list.add("int layer");
    members.insert(members.end() - (kernel.takes_workspace ? 1 : 0), ".layer = layer");
  }
  const std::string cluster =
      launch.cluster == 1 ? "" : fmt::format("__cluster_dims__({}, 1, 1) ", launch.cluster);
  const std::string epilogue = epilogue_text();
  kernel.text = fmt::format(
      "{0}\nextern \"C\" __global__ void {1}__launch_bounds__({2}, {3}) {4}{5}{6}  {4}_epilogue "
      "epilogue{{{7}}};\n  {8}<Config>(left, right, {9}, epilogue);\n}}\n",
      epilogue, cluster, launch.threads, launch.blocks_per_sm, kNamePlaceholder, list.text(), config_text(),
      fmt::join(members, ", "), used.function, rows_size().text);
  return kernel;
}

CudaKernels CudaBodyPrinter::print_product() {
  CudaKernels kernels;
  kernels.kernels.push_back(product_kernel());
  if (sums_.empty()) return kernels;
  kernels.workspace_bytes = layout_.blocks * sum_width_ * 4;
  kernels.kernels.push_back(finishing_kernel(layout_.blocks));
  return kernels;
}

}  // namespace hydrac::codegen
