// The kernel of a matmul and the body behind it: cuda/matmul/matmul.cuh with the body's struct as its
// epilogue.
#include "codegen/cuda_matmul.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "codegen/parameter_list.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::codegen {

MatmulPlan plan_matmul(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const passes::EpilogueShape epilogue{.paired = node.flag("paired"),
                                       .sums = static_cast<int>(node.integer("sums"))};
  const cuda::MatmulProblem problem = passes::matmul_problem(graph, node, epilogue, gpu.chip());
  return {problem, matmul_tile(problem, passes::schedule_of(node))};
}

std::string CudaBodyPrinter::config_text() const {
  const auto [problem, tile] = plan_matmul(graph_, node_, gpu_);
  const ir::Value& matmul = graph_.value(node_.matmul);
  return fmt::format(
      "using Config = cuda::MatmulConfig<{}, {}, {}, /*b_transposed=*/{}, /*paired=*/{},\n"
      "    cuda::MatmulTile{{.schedule = cuda::MatmulSchedule::{}, .rows = {}, .panels = {}, .stages = {}, "
      ".cluster = {}{}}}>;\n",
      codegen::c_type(matmul.dtype, kCudaDialect), dimensions_.of(matmul.shape.back()).text,
      dimensions_.of(graph_.value(node_.inputs[0]).shape.back()).text, problem.b_transposed, problem.paired,
      std::get<std::string>(node_.attributes.at("schedule")), tile.rows, tile.panels, tile.stages,
      tile.cluster, tile.split > 1 ? fmt::format(", .split = {}", tile.split) : "");
}

// Where each sum's columns begin in a row of the workspace.
std::vector<std::string> CudaBodyPrinter::partial_sums() const {
  std::vector<std::string> partials;
  for (const int s : sums_) {
    const std::string offset = sum_offset_size(body_.stores[s]).text;
    partials.push_back("workspace" + (sum_offset(body_.stores[s]) == 0 ? "" : " + " + offset));
  }
  return partials;
}

CudaKernel CudaBodyPrinter::matmul_kernel() {
  const auto [problem, tile] = plan_matmul(graph_, node_, gpu_);
  const cuda::MatmulLaunch launch = matmul_launch(problem, tile);
  CudaKernel kernel;
  kernel.comment = comment();
  kernel.header = "cuda/matmul/matmul.cuh";
  kernel.takes_workspace = !sums_.empty();
  kernel.takes_layer = takes_layer();
  kernel.launch = {.grid = launch.grid,
                   .block = launch.threads,
                   .shared_bytes = static_cast<int64_t>(launch.shared_bytes),
                   .grid_text = "kBlocks"};
  ParameterList list;
  std::vector<std::string> members;
  for (size_t i = 0; i < 2; ++i) {
    const ir::Value& matrix = graph_.value(node_.inputs[i]);
    const cuda::MatmulMap map = i == 0 ? matmul_map_a(problem, tile) : matmul_map_b(problem);
    const char* box = i == 0                 ? "kBoxRows, kDepth"
                      : problem.b_transposed ? "kPanel, kDepth"
                                             : "kDepth, kPanel";
    kernel.maps.push_back({matrix.dtype, map.size[1], map.size[0], map.box[1], map.box[0], box});
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
    members.push_back(fmt::format(".partials = {{{}}}", fmt::join(partial_sums(), ", ")));
  }
  if (kernel.takes_layer) {
    list.add("int layer");
    members.insert(members.end() - (kernel.takes_workspace ? 1 : 0), ".layer = layer");
  }
  const std::string cluster =
      launch.cluster == 1
          ? ""
          : fmt::format("__cluster_dims__({}, 1, 1) ",
                        of_sizes(tile.split > 1 ? "Config::tile.split" : "Config::tile.cluster"));
  const std::string epilogue = epilogue_text();
  const std::string sizes = fmt::format(
      "{}constexpr int kBlocks = {};  // of the grid\nconstexpr int kThreads = Config::tile.threads();  // "
      "of a block\n"
      "constexpr int kSharedBytes = Config::tile.shared_bytes();  // of a block\n"
      "constexpr int kBoxRows = Config::a_box_rows;  // that are copied of the left matrix at once\n"
      "constexpr int kPanel = Config::tile.panel_columns;  // columns of the result: what is copied of the "
      "right one\n"
      "constexpr int kDepth = Config::tile.depth;  // that both copies have\n",
      config_text(), launch.grid);
  kernel.launch.bounds = bounds_;
  kernel.text = fmt::format(
      "{0}{1}\nextern \"C\" __global__ void {2}__launch_bounds__({3}, 1) {4}{5}{6}  {4}_epilogue "
      "epilogue{{{7}}};\n  cuda::matmul<Config>(left, right, {8}, epilogue);\n}}\n",
      sizes_namespace(sizes), epilogue, cluster, of_sizes("kThreads"), kNamePlaceholder, list.text(),
      using_sizes(), fmt::join(members, ", "), rows_size().text);
  return kernel;
}

CudaKernels CudaBodyPrinter::print_matmul() {
  CudaKernels kernels;
  kernels.kernels.push_back(matmul_kernel());
  if (sums_.empty()) return kernels;
  kernels.workspace_bytes = layout_.blocks * sum_width_ * 4;
  kernels.kernels.push_back(finishing_kernel(layout_.blocks));
  return kernels;
}

}  // namespace hydrac::codegen
