#include "codegen/cuda/embedding.h"

#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "cuda/embedding_geometry.h"

namespace hydrac::codegen {

CudaKernels cuda_embedding_backward(const ir::Graph& graph, const ir::Node& node,
                                    const targets::Target& gpu) {
  const ir::Value &d_y = graph.value(node.inputs[1]), &table = graph.value(node.outputs[0]);
  const cuda::EmbeddingGradient g{static_cast<int>(element_count(graph.value(node.inputs[0]).shape)),
                                  static_cast<int>(table.shape[1].size),
                                  static_cast<int>(table.shape[0].size),
                                  static_cast<int>(ir::size_of(d_y.dtype)),
                                  static_cast<int>(ir::size_of(table.dtype)),
                                  node.flag("accumulate")};
  const Dimensions dimensions(graph);
  const auto y_type = c_type(d_y.dtype, kCudaDialect), table_type = c_type(table.dtype, kCudaDialect);
  const ir::Shape& tokens = graph.value(node.inputs[0]).shape;
  const auto template_kernel = [&](const std::string& name, const std::string& launch) {
    CudaKernel kernel;
    kernel.name = name;
    kernel.header = "cuda/embedding_backward.cuh";
    Block& sizes = kernel.text.sizes;
    sizes.line(
        "constexpr cuda::EmbeddingGradient kGradient{{.tokens = {}, .width = {}, .vocabulary = {},\n"
        "    .d_y_bytes = sizeof({}), .table_bytes = sizeof({}), .accumulate = {}}};",
        dimensions.of(tokens), dimensions.of(table.shape[1]), dimensions.of(table.shape[0]), y_type,
        table_type, g.accumulate);
    sizes.line("constexpr cuda::EmbeddingLaunch kLaunch = cuda::{}(kGradient);", launch);
    sizes.line("constexpr int kThreads = kLaunch.threads;");
    kernel.text.attributes = kernel_attributes(", " + of_sizes("kLaunch.blocks_per_sm"));
    open_body(kernel.text, gpu);
    use_sizes(kernel.text);
    return kernel;
  };
  const auto finish = [&](CudaKernel& kernel, const cuda::EmbeddingLaunch& launch) {
    kernel.write(graph, "d_table", node.outputs[0]);
    kernel.text.take("float*", "workspace");
    kernel.takes_workspace = true;
    kernel.launch = {launch.grid, launch.threads, 0, "kLaunch.grid"};
  };
  CudaKernel first = template_kernel("embedding_gradient_runs", "embedding_runs_launch");
  first.comment = "d_table[id] += d_y, tokens sorted by id in chunks: what lies within a chunk";
  first.read(graph, "ids", node.inputs[0]);
  first.read(graph, "order", node.inputs[2]);
  first.read(graph, "d_y", node.inputs[1]);
  finish(first, embedding_runs_launch(g));
  first.text.body.line(
      "cuda::embedding_gradient_runs<{}, {}, kGradient>(ids, order, d_y, d_table, workspace);", y_type,
      table_type);
  CudaKernel second = template_kernel("embedding_gradient_borders", "embedding_borders_launch");
  second.comment = "d_table[id] += d_y: what crosses the borders of chunks";
  finish(second, embedding_borders_launch(g));
  second.text.body.line("cuda::embedding_gradient_borders<{}, kGradient>(workspace, d_table);", table_type);
  return {{std::move(first), std::move(second)}, static_cast<int64_t>(embedding_workspace_bytes(g))};
}

}  // namespace hydrac::codegen
