#include "codegen/cuda_embedding.h"

#include <fmt/format.h>

#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "codegen/parameter_list.h"
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
  const std::string opening = opening_text(gpu);
  const std::string gradient = fmt::format(
      "constexpr cuda::EmbeddingGradient kGradient{{.tokens = {}, .width = {}, .vocabulary = {},\n"
      "    .d_y_bytes = sizeof({}), .table_bytes = sizeof({}), .accumulate = {}}};\n",
      dimensions.of(tokens).text, dimensions.of(table.shape[1]).text, dimensions.of(table.shape[0]).text,
      y_type, table_type, g.accumulate);
  const auto head = [&](const std::string& launch) {
    return fmt::format("{}extern \"C\" __global__ void __launch_bounds__({}, {}) {}",
                       sizes_namespace(gradient + "constexpr cuda::EmbeddingLaunch kLaunch = cuda::" +
                                       launch + "(kGradient);\nconstexpr int kThreads = kLaunch.threads;\n"),
                       of_sizes("kThreads"), of_sizes("kLaunch.blocks_per_sm"), kNamePlaceholder);
  };
  const cuda::EmbeddingLaunch runs = embedding_runs_launch(g), borders = embedding_borders_launch(g);
  CudaKernel first, second;
  ParameterList all, only_table;
  all.add("const std::int32_t* ids", tokens);
  all.add("const std::int32_t* order", graph.value(node.inputs[2]).shape);
  all.add(fmt::format("const {}* d_y", y_type), d_y.shape);
  for (ParameterList* list : {&all, &only_table}) {
    list->add(fmt::format("{}* d_table", table_type), table.shape);
    list->add("float* workspace");
  }
  first.name = "embedding_gradient_runs";
  first.comment = "d_table[id] += d_y, tokens sorted by id in chunks: what lies within a chunk";
  first.text = fmt::format(
      "{}{}{}{}  cuda::embedding_gradient_runs<{}, {}, kGradient>(ids, order, d_y, d_table, "
      "workspace);\n}}\n",
      head("embedding_runs_launch"), all.text(), opening, using_sizes(), y_type, table_type);
  first.arguments = {node.inputs[0], node.inputs[2], node.inputs[1], node.outputs[0]};
  first.launch = {runs.grid, runs.threads, 0, "kLaunch.grid"};
  second.name = "embedding_gradient_borders";
  second.comment = "d_table[id] += d_y: what crosses the borders of chunks";
  second.text =
      fmt::format("{}{}{}{}  cuda::embedding_gradient_borders<{}, kGradient>(workspace, d_table);\n}}\n",
                  head("embedding_borders_launch"), only_table.text(), opening, using_sizes(), table_type);
  second.arguments = {node.outputs[0]};
  second.launch = {borders.grid, borders.threads, 0, "kLaunch.grid"};
  first.takes_workspace = second.takes_workspace = true;
  first.header = second.header = "cuda/embedding_backward.cuh";
  return {{std::move(first), std::move(second)}, static_cast<int64_t>(embedding_workspace_bytes(g))};
}

}  // namespace hydrac::codegen
