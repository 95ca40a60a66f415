#include "codegen/cuda/weight_gradients.h"

#include "codegen/cuda/tensor_maps.h"
#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "passes/weight_gradients_problem.h"

namespace hydrac::codegen {

namespace {

ir::Shape rows_of(const ir::Value& matrix) {
  return {matrix.shape.begin(), matrix.shape.end() - 1};
}

}  // namespace

CudaKernels weight_gradients_kernel(const ir::Graph& graph, const ir::Node& node,
                                    const targets::Target& gpu) {
  const cuda::WeightGradientsProblem problem = passes::weight_gradients_problem(graph, node, gpu.chip());
  const cuda::WeightGradientTile tile = weight_gradients_tile(problem);
  const cuda::MatmulLaunch launch = weight_gradients_launch(problem, tile);
  const Dimensions dimensions(graph);
  CudaKernel kernel;
  kernel.name = "weight_gradients";
  kernel.comment =
      fmt::format("d_w {}= d_y^T x, of {} weights", node.flag("accumulate") ? "+" : "", problem.count);
  kernel.header = "cuda/matmul/weight_gradients.cuh";
  kernel.launch = {.grid = launch.grid,
                   .block = launch.threads,
                   .shared_bytes = static_cast<int64_t>(launch.shared_bytes),
                   .grid_text = "kBlocks"};
  kernel.text.sizes = launch_constants(kernel.launch);
  kernel.text.attributes =
      kernel_attributes(", 1", launch.cluster == 1 ? "" : std::to_string(launch.cluster));
  for (int i = 0; i < problem.count; ++i) {
    for (const bool is_x : {false, true}) {
      take_map(kernel, graph, fmt::format("{}_{}", is_x ? "x" : "d_y", i + 1), node.inputs[2 * i + is_x],
               cuda::weight_gradients_map(problem.rows, is_x ? problem.n[i] : problem.m[i]));
    }
  }
  std::vector<Code> gradients;
  for (int i = 0; i < problem.count; ++i) {
    kernel.write(graph, fmt::format("d_w_{}", i + 1), node.outputs[i]);
    gradients.push_back(code("{{&d_y_{0}, &x_{0}, d_w_{0}, {1}, {2}}}", i + 1,
                             dimensions.of(graph.value(node.inputs[2 * i]).shape.back()),
                             dimensions.of(graph.value(node.inputs[2 * i + 1]).shape.back())));
  }
  const ir::Value& d_y = graph.value(node.inputs[0]);
  Block& body = kernel.text.body;
  body.line(
      "using Config = cuda::WeightGradientsConfig<{}, {}, /*accumulate=*/{},\n"
      "      cuda::WeightGradientTile{{.consumers = {}, .columns = {}, .stages = {}, .split = {}}}>;",
      c_type(d_y.dtype, kCudaDialect), dimensions.of(rows_of(d_y)), node.flag("accumulate"), tile.consumers,
      tile.columns, tile.stages, tile.split);
  body.line("const cuda::WeightGradient gradients[] = {{\n      {}}};", joined(gradients, ",\n      "));
  body.line("cuda::weight_gradients<Config>(gradients);");
  return {{std::move(kernel)}, 0};
}

}  // namespace hydrac::codegen
