// The kernel of a matmul and the body behind it: one of the templates of passes::matmul_kernel, which calls
// the body's struct.
#include "codegen/cuda_matmul.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "codegen/parameter_list.h"
#include "cuda/row_matmul/geometry.h"
#include "cuda/small_matmul/geometry.h"
#include "cuda/stationary_matmul/geometry.h"
#include "passes/elementwise_epilogue.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::codegen {

cuda::MatmulProblem matmul_problem(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const passes::EpilogueShape epilogue{.paired = node.flag("paired"),
                                       .sums = static_cast<int>(node.integer("sums"))};
  cuda::MatmulProblem problem = passes::matmul_problem(graph, node, epilogue, gpu.chip());
  if (passes::matmul_kernel_of(node) == passes::matmul_kernel::kStationary)
    problem.matrices = static_cast<int>(passes::elementwise_outputs(graph, node).size());
  return problem;
}

MatmulTemplate matmul_template(const ir::Node& node, const cuda::MatmulProblem& problem) {
  const std::string& kernel = passes::matmul_kernel_of(node);
  MatmulTemplate result{.header = fmt::format("cuda/{0}/{0}.cuh", kernel), .function = "cuda::" + kernel};
  if (kernel == passes::matmul_kernel::kRows) {
    const cuda::RowMatmulTile tile = row_matmul_tile(problem);
    result.config = "cuda::RowMatmulConfig";
    result.tile =
        fmt::format("cuda::RowMatmulTile{{.rows = {}, .panels = {}, .across = {}, .down = {}, .stages = {}}}",
                    tile.rows, tile.panels, tile.across, tile.down, tile.stages);
    result.launch = row_matmul_launch(problem, tile);
    result.maps = {row_matmul_map_a(problem, tile), row_matmul_map_b(problem)};
    result.sums_rows = row_matmul_sums_rows(problem, tile);
  } else if (kernel == passes::matmul_kernel::kSmall) {
    const cuda::SmallMatmulTile tile = small_matmul_tile(problem);
    result.config = "cuda::SmallMatmulConfig";
    result.tile =
        fmt::format("cuda::SmallMatmulTile{{.panels = {}, .stages = {}}}", tile.panels, tile.stages);
    result.launch = small_matmul_launch(problem, tile);
    result.maps = {small_matmul_map_a(problem), small_matmul_map_b(problem)};
    result.sums_rows = small_matmul_sums_rows(problem);
  } else if (kernel == passes::matmul_kernel::kStationary) {
    const cuda::StationaryTile tile = stationary_tile(problem);
    result.config = "cuda::StationaryConfig";
    result.tile =
        fmt::format("cuda::StationaryTile{{.depth_tiles = {}, .stages = {}, .matrices = {}, .slots = {}}}",
                    tile.depth_tiles, tile.stages, tile.matrices, tile.slots);
    result.launch = stationary_launch(problem);
    result.maps = {stationary_map_a(problem), stationary_map_b(problem)};
    result.matrix_map = stationary_map_matrix(problem);
  } else {
    const cuda::MatmulTile tile = matmul_tile(problem);
    result.config = "cuda::MatmulConfig";
    result.tile = fmt::format("cuda::MatmulTile{{.rows = {}, .stages = {}}}", tile.rows, tile.stages);
    result.launch = matmul_launch(problem);
    result.maps = {matmul_map_a(problem), matmul_map_b(problem)};
    result.sums_rows = matmul_sums_rows(problem);
  }
  return result;
}

std::string CudaBodyPrinter::config_text() const {
  const cuda::MatmulProblem problem = matmul_problem(graph_, node_, gpu_);
  const MatmulTemplate used = matmul_template(node_, problem);
  const ir::Value& matmul = graph_.value(node_.matmul);
  const Size depth = dimensions_.of(graph_.value(node_.inputs[0]).shape.back());
  const bool may_pair = passes::matmul_kernel_of(node_) == passes::matmul_kernel::kLarge;
  const std::string paired = may_pair ? fmt::format("/*paired=*/{}, ", problem.paired) : "";
  return fmt::format("  using Config = {}<{}, {}, {}, /*b_transposed=*/{}, {}\n      {}>;\n", used.config,
                     codegen::c_type(matmul.dtype, kCudaDialect), dimensions_.of(matmul.shape.back()).text,
                     depth.text, problem.b_transposed, paired, used.tile);
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
  const MatmulTemplate used = matmul_template(node_, matmul_problem(graph_, node_, gpu_));
  const cuda::MatmulLaunch& launch = used.launch;
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
    const cuda::MatmulMap& map = used.maps[i];
    kernel.maps.push_back({matrix.dtype, map.size[1], map.size[0], map.box[1], map.box[0]});
    kernel.arguments.push_back(node_.inputs[i]);
    kernel.parameters.emplace_back(i == 0 ? "left" : "right");
    list.add("const __grid_constant__ TensorMap " + kernel.parameters.back(), matrix.shape);
  }
  for (const int operand : matrices_) {
    const ir::Operand& matrix = body_.operands[operand];
    const cuda::MatmulMap& map = used.matrix_map;
    kernel.maps.push_back(
        {matrix.dtype, map.size[1], map.size[0], map.box[1], map.box[0], /*is_written=*/true});
    kernel.arguments.push_back(use_of(operand));
    kernel.parameters.push_back(operand_names_[operand]);
    list.add("const __grid_constant__ TensorMap " + operand_names_[operand], matrix.shape);
  }
  if (!matrices_.empty()) members.push_back(fmt::format(".matrices = {{{}}}", matrix_addresses()));
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
      launch.cluster == 1 ? "" : fmt::format("__cluster_dims__({}, 1, 1) ", launch.cluster);
  const std::string epilogue = epilogue_text();
  kernel.text = fmt::format(
      "{0}\nextern \"C\" __global__ void {1}__launch_bounds__({2}, {3}) {4}{5}{6}  {4}_epilogue "
      "epilogue{{{7}}};\n  {8}<Config>(left, right, {9}, epilogue);\n}}\n",
      epilogue, cluster, launch.threads, launch.blocks_per_sm, kNamePlaceholder, list.text(), config_text(),
      fmt::join(members, ", "), used.function, rows_size().text);
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
