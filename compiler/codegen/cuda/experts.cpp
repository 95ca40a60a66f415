#include "codegen/cuda/experts.h"

#include <stdexcept>

#include "codegen/cuda/body.h"
#include "codegen/cuda/tensor_maps.h"
#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "cuda/expert_geometry.h"
#include "cuda/matmul/expert_gradients.h"
#include "cuda/matmul/geometry.h"
#include "cuda/matmul/plain_tile.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::codegen {

namespace {

Size experts_of(const ir::Graph& graph, ir::Use offsets) {
  return Dimensions(graph).of({graph.value(offsets).shape[0].size - 1, "E"});
}

bool are_16_bits(const ir::Value& a, const ir::Value& b) {
  return size_of(a.dtype) == 2 && a.dtype == b.dtype;
}

// A kernel of plain_experts.cuh.
CudaKernel plain_kernel(const std::string& name, int64_t blocks, const targets::Target& gpu) {
  CudaKernel kernel;
  kernel.name = name;
  kernel.header = "cuda/matmul/plain_experts.cuh";
  kernel.launch = {blocks, cuda::kPlainThreads, cuda::kPlainSharedBytes, "kBlocks"};
  kernel.text.sizes = launch_constants(kernel.launch);
  kernel.text.attributes = kernel_attributes();
  open_body(kernel.text, gpu);
  return kernel;
}

bool uses_mma(const ir::Value& x, const targets::Target& gpu) {
  return cuda::plain_uses_mma(gpu.capability, x.dtype == ir::DType::bf16, static_cast<int>(size_of(x.dtype)));
}

std::string comment_of_gradient(const ir::Node& node) {
  return fmt::format("d_w {}= d_y^T x, over the rows of each expert", node.flag("accumulate") ? "+" : "");
}

CudaKernels plain_gradient(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Value &d_y = graph.value(node.inputs[0]), &x = graph.value(node.inputs[1]),
                  &d_w = graph.value(node.outputs[0]);
  const Dimensions dimensions(graph);
  const Size experts = experts_of(graph, node.inputs[2]);
  CudaKernel kernel = plain_kernel(
      "expert_gradients",
      cuda::plain_gradient_blocks(static_cast<int>(experts.value), d_y.shape[1].size, x.shape[1].size), gpu);
  kernel.comment = comment_of_gradient(node);
  kernel.read(graph, "d_y", node.inputs[0]);
  kernel.read(graph, "x", node.inputs[1]);
  kernel.write(graph, "d_w", node.outputs[0]);
  kernel.read(graph, "offsets", node.inputs[2]);
  kernel.text.body.line(
      "cuda::plain_expert_gradients<{}, {}, {}, {}, {},\n"
      "    /*accumulate=*/{}, /*uses_mma=*/{}>(d_y, x, offsets, d_w);",
      c_type(d_y.dtype, kCudaDialect), c_type(d_w.dtype, kCudaDialect), experts, dimensions.of(d_y.shape[1]),
      dimensions.of(x.shape[1]), node.flag("accumulate"), uses_mma(d_y, gpu));
  return {{std::move(kernel)}, 0};
}

}  // namespace

CudaKernels cuda_expert_rows(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Shape& chosen = graph.value(node.inputs[0]).shape;
  const ir::Value& source = graph.value(node.outputs[0]);
  const int64_t unit = node.integer("block");
  const Size experts = experts_of(graph, node.outputs[2]);
  if (unit % cuda::kExpertRows != 0) throw std::logic_error("an expert's rows begin within a tile");
  const cuda::ExpertChoices choices{static_cast<int>(element_count(chosen)), static_cast<int>(experts.value),
                                    static_cast<int>(unit), static_cast<int>(source.shape[0].size)};
  const Dimensions dimensions(graph);
  const auto template_kernel = [&](const std::string& name) {
    CudaKernel kernel;
    kernel.name = name;
    kernel.header = "cuda/expert_rows.cuh";
    kernel.takes_workspace = true;
    kernel.launch = {cuda::expert_blocks(choices), cuda::kExpertThreads, 0, "kBlocks"};
    Block& sizes = kernel.text.sizes;
    sizes.line(
        "constexpr cuda::ExpertChoices kChoices{{.choices = {}, .experts = {}, .unit = {}, .rows = {}}};",
        dimensions.of(chosen), experts, unit, dimensions.of(source.shape));
    sizes.line("constexpr int kBlocks = cuda::expert_blocks(kChoices);").comment = "of the grid";
    sizes.line("constexpr int kThreads = cuda::kExpertThreads;").comment = "of a block";
    kernel.text.attributes = kernel_attributes();
    open_body(kernel.text, gpu);
    use_sizes(kernel.text);
    kernel.read(graph, "chosen", node.inputs[0]);
    return kernel;
  };
  CudaKernel first = template_kernel("count_experts");
  first.comment = "How often each block's choices have chosen each expert";
  first.text.take("float*", "workspace");
  first.text.body.line("cuda::count_experts<kChoices>(chosen, workspace);");
  CudaKernel second = template_kernel("expert_rows");
  second.comment = "Choices in the order of their experts, a stable sort; where each is; experts' first rows";
  second.write(graph, "source", node.outputs[0]);
  second.write(graph, "place", node.outputs[1]);
  second.write(graph, "offsets", node.outputs[2]);
  second.text.take("const float*", "workspace");
  second.text.body.line("cuda::place_experts<kChoices>(chosen, workspace, source, place, offsets);");
  return {{std::move(first), std::move(second)}, cuda::expert_workspace_bytes(choices), 1};
}

CudaKernels cuda_grouped_matmul(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Value &x = graph.value(node.inputs[0]), &weights = graph.value(node.inputs[1]),
                  &y = graph.value(node.outputs[0]);
  constexpr auto persistent = cuda::MatmulSchedule::persistent;
  if (are_16_bits(x, weights) && x.dtype == y.dtype &&
      matmul_supports(passes::matmul_problem(graph, node, {}, gpu.chip()), persistent))
    return cuda_body_kernels(graph, passes::plain_matmul(graph, node, persistent), gpu);
  const Dimensions dimensions(graph);
  const bool transposed = node.flag("transpose_b");
  CudaKernel kernel =
      plain_kernel("expert_matmul", cuda::plain_matmul_blocks(x.shape[0].size, y.shape[1].size), gpu);
  kernel.comment = transposed ? "y = x W^T, W the matrix of the row's expert"
                              : "y = x W, W the matrix of the row's expert";
  kernel.read(graph, "x", node.inputs[0]);
  kernel.read(graph, "weights", node.inputs[1]);
  kernel.read(graph, "offsets", node.inputs[2]);
  kernel.write(graph, "y", node.outputs[0]);
  kernel.text.body.line(
      "cuda::plain_expert_matmul<{}, {}, {}, {}, /*b_transposed=*/{},\n"
      "    /*uses_mma=*/{}>(x, weights, offsets, y);",
      c_type(x.dtype, kCudaDialect), experts_of(graph, node.inputs[2]), dimensions.of(y.shape[1]),
      dimensions.of(x.shape[1]), transposed, uses_mma(x, gpu));
  return {{std::move(kernel)}, 0};
}

CudaKernels cuda_grouped_weight_gradient(const ir::Graph& graph, const ir::Node& node,
                                         const targets::Target& gpu) {
  const ir::Value &d_y = graph.value(node.inputs[0]), &x = graph.value(node.inputs[1]),
                  &d_w = graph.value(node.outputs[0]);
  const Size experts = experts_of(graph, node.inputs[2]);
  const cuda::ExpertGradientsProblem problem{gpu.chip(),        d_y.dtype == ir::DType::bf16,
                                             d_y.shape[0].size, static_cast<int>(experts.value),
                                             d_y.shape[1].size, x.shape[1].size};
  const bool can_add = !node.flag("accumulate") || d_w.dtype == ir::DType::f32;
  if (!are_16_bits(d_y, x) || !can_add || !expert_gradients_support(problem))
    return plain_gradient(graph, node, gpu);
  const cuda::ExpertGradientTile tile = expert_gradients_tile(problem);
  const cuda::MatmulLaunch launch = expert_gradients_launch(problem, tile);
  const Dimensions dimensions(graph);
  CudaKernel kernel;
  kernel.name = "expert_gradients";
  kernel.comment = comment_of_gradient(node);
  kernel.header = "cuda/matmul/expert_gradients.cuh";
  kernel.launch = {.grid = launch.grid,
                   .block = launch.threads,
                   .shared_bytes = static_cast<int64_t>(launch.shared_bytes),
                   .grid_text = "kBlocks"};
  kernel.text.sizes = launch_constants(kernel.launch);
  kernel.text.attributes =
      kernel_attributes(", 1", launch.cluster == 1 ? "" : std::to_string(launch.cluster));
  take_map(kernel, graph, "d_y", node.inputs[0], expert_gradients_map_d_y(problem));
  take_map(kernel, graph, "x", node.inputs[1], expert_gradients_map_x(problem, tile));
  kernel.write(graph, "d_w", node.outputs[0]);
  kernel.read(graph, "offsets", node.inputs[2]);
  kernel.text.body.line(
      "using Config = cuda::ExpertGradientsConfig<{}, {}, {}, {}, {}, /*accumulate=*/{},\n"
      "    cuda::ExpertGradientTile{{.columns = {}, .stages = {}, .cluster = {}}}>;",
      c_type(d_y.dtype, kCudaDialect), c_type(d_w.dtype, kCudaDialect), experts, dimensions.of(d_y.shape[1]),
      dimensions.of(x.shape[1]), node.flag("accumulate"), tile.columns, tile.stages, tile.cluster);
  kernel.text.body.line("cuda::expert_gradients<Config>(d_y, x, offsets, d_w);");
  return {{std::move(kernel)}, 0};
}

}  // namespace hydrac::codegen
