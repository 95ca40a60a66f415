// The kernel of a matmul and its epilogue: cuda/matmul/matmul.cuh with the body's struct as its epilogue.
#include "codegen/cuda/matmul.h"

#include "codegen/cuda/body_printer.h"
#include "codegen/cuda/tensor_maps.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::codegen {

using ir::Store;

MatmulPlan plan_matmul(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const passes::EpilogueShape epilogue{.paired = node.flag("paired"),
                                       .sums = static_cast<int>(node.integer("sums"))};
  const cuda::MatmulProblem problem = passes::matmul_problem(graph, node, epilogue, gpu.chip());
  return {problem, matmul_tile(problem, passes::schedule_of(node))};
}

Block CudaBodyPrinter::matmul_sizes(int64_t blocks) const {
  const auto [problem, tile] = plan_matmul(graph_, node_, gpu_);
  const ir::Value& matmul = graph_.value(node_.matmul);
  Block sizes;
  sizes.line(
      "using Config = cuda::MatmulConfig<{}, {}, {}, /*b_transposed=*/{}, /*paired=*/{},\n"
      "    cuda::MatmulTile{{.schedule = cuda::MatmulSchedule::{}, .rows = {}, .panels = {}, .stages = {}, "
      ".cluster = {}{}}}{}{}>;",
      codegen::c_type(matmul.dtype, kCudaDialect), dimensions_.of(matmul.shape.back()),
      dimensions_.of(graph_.value(node_.inputs[0]).shape.back()), problem.b_transposed, problem.paired,
      std::get<std::string>(node_.attributes.at("schedule")), tile.rows, tile.panels, tile.stages,
      tile.cluster, tile.split > 1 ? fmt::format(", .split = {}", tile.split) : "",
      problem.tail_k > 0 ? code(", /*tail_k=*/{}", dimensions_.of(graph_.value(node_.inputs[2]).shape.back()))
                         : Code(),
      problem.experts > 0 ? code(", /*tail_k=*/0, /*experts=*/{}", dimensions_.of({problem.experts, "E"}))
                          : Code());
  sizes.line("constexpr int kBlocks = {};", blocks).comment = "of the grid";
  sizes.line("constexpr int kThreads = Config::tile.threads();").comment = "of a block";
  sizes.line("constexpr int kSharedBytes = Config::tile.shared_bytes();").comment = "of a block";
  sizes.line("constexpr int kBoxRows = Config::a_box_rows;").comment =
      "that are copied of the left matrix at once";
  sizes.line("constexpr int kPanel = Config::tile.panel_columns;").comment =
      "columns of the result: what is copied of the right one";
  sizes.line("constexpr int kDepth = Config::tile.depth;").comment = "that both copies have";
  return sizes;
}

// The first column of each sum in a row of the workspace.
std::vector<Code> CudaBodyPrinter::partial_sums() const {
  std::vector<Code> partials;
  for (const int s : sums_) {
    const Store& store = body_.stores[s];
    partials.push_back(sum_of("workspace", sum_offset_code(store)));
  }
  return partials;
}

// The matrices as the kernel's first parameters: those of the matmul, then those of its tail.
void CudaBodyPrinter::take_matrices(CudaKernel& kernel) const {
  const auto [problem, tile] = plan_matmul(graph_, node_, gpu_);
  const auto take = [&](size_t input, const char* name, const cuda::MatmulMap& map, const char* box) {
    take_map(kernel, graph_, name, node_.inputs[input], map, box);
  };
  const char *box_a = "kBoxRows, kDepth", *box_b = problem.b_transposed ? "kPanel, kDepth" : "kDepth, kPanel";
  take(0, "left", matmul_map_a(problem, tile), box_a);
  take(1, "right", matmul_map_b(problem), box_b);
  if (problem.experts > 0) kernel.read(graph_, "offsets", node_.inputs[2]);
  if (problem.tail_k == 0) return;
  take(2, "tail_left", matmul_map_a(matmul_tail(problem), tile), box_a);
  take(3, "tail_right", matmul_map_b(matmul_tail(problem)), box_b);
}

CudaKernel CudaBodyPrinter::matmul_kernel() {
  const auto [problem, tile] = plan_matmul(graph_, node_, gpu_);
  const cuda::MatmulLaunch launch = matmul_launch(problem, tile);
  CudaKernel kernel;
  kernel.comment = comment();
  kernel.sharing = sharing();
  kernel.header = "cuda/matmul/matmul.cuh";
  kernel.takes_workspace = !sums_.empty();
  kernel.takes_layer = takes_layer();
  kernel.launch = {.grid = launch.grid,
                   .block = launch.threads,
                   .shared_bytes = static_cast<int64_t>(launch.shared_bytes),
                   .grid_text = "kBlocks"};
  take_matrices(kernel);
  std::vector<Code> members;
  for (const int operand : epilogue_tensors()) {
    kernel.take(pointer_type(operand), operand_names_[operand], body_.operands[operand].shape,
                use_of(operand));
    members.push_back(code(".{0} = {0}", operand_names_[operand]));
  }
  if (kernel.takes_workspace)
    kernel.text.take("float*", "workspace",
                     {{layout_.blocks, partial_rows().code.text}, {sum_width_, sums_size().code.text}});
  if (kernel.takes_layer) {
    kernel.text.take("int", "layer");
    members.push_back(".layer = layer");
  }
  if (kernel.takes_workspace) members.push_back(code(".partials = {{{}}}", joined(partial_sums(), ", ")));
  kernel.text.sizes = matmul_sizes(launch.grid);
  kernel.text.helpers = epilogue();
  kernel.text.attributes = kernel_attributes(
      ", 1",
      launch.cluster == 1 ? "" : of_sizes(tile.split > 1 ? "Config::tile.split" : "Config::tile.cluster"));
  use_sizes(kernel.text);
  Block& body = kernel.text.body;
  body.line("{}_epilogue epilogue{{{}}};", kNamePlaceholder, joined(members, ", "));
  if (problem.experts > 0)
    body.line("cuda::grouped_matmul<Config>(left, right, offsets, epilogue);");
  else
    body.line("cuda::matmul<Config>(left, right, {}{}, epilogue);",
              problem.tail_k > 0 ? "tail_left, tail_right, " : "", rows_size());
  if (kernel.takes_workspace) bounds_.insert(fits_workspace(partial_bytes(partial_rows())));
  kernel.launch.bounds = bounds_;
  return kernel;
}

CudaKernels CudaBodyPrinter::print_matmul() {
  CudaKernels kernels;
  kernels.kernels.push_back(matmul_kernel());
  if (sums_.empty()) return kernels;
  kernels.workspace_bytes = layout_.blocks * sum_width_ * 4;
  kernels.kernels.push_back(finishing_kernel(partial_rows()));
  return kernels;
}

}  // namespace hydrac::codegen
