#include "codegen/cuda_library.h"

#include <fmt/format.h>

#include <stdexcept>

#include "codegen/cuda_attention.h"
#include "codegen/cuda_cache.h"
#include "codegen/cuda_embedding.h"
#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "codegen/parameter_list.h"
#include "cuda/transpose_geometry.h"

namespace hydrac::codegen {

namespace {

CudaKernels transpose(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Value &x = graph.value(node.inputs[0]), &y = graph.value(node.outputs[0]);
  const Dimensions dimensions(graph);
  const ir::Shape rows(x.shape.begin(), x.shape.end() - 1);
  ParameterList list;
  list.add(fmt::format("const {}* x", c_type(x.dtype, kCudaDialect)), x.shape);
  list.add(fmt::format("{}* y", c_type(y.dtype, kCudaDialect)), y.shape);
  CudaKernel kernel;
  kernel.name = "transpose";
  kernel.comment = "y = x^T, of 8-bit elements";
  kernel.launch = {cuda::transpose_blocks(element_count(rows), x.shape.back().size), cuda::kTransposeThreads,
                   0, "kBlocks"};
  kernel.text = fmt::format(
      "{}extern \"C\" __global__ void __launch_bounds__({}) {}{}{}  cuda::transpose<{}, {}>(&x->bits, "
      "&y->bits);\n}}\n",
      sizes_namespace(launch_constants(kernel.launch)), of_sizes("kThreads"), kNamePlaceholder, list.text(),
      opening_text(gpu), dimensions.of(rows).text, dimensions.of(x.shape.back()).text);
  kernel.header = "cuda/transpose.cuh";
  kernel.arguments = {node.inputs[0], node.outputs[0]};
  kernel.parameters = {"x", "y"};
  return {{std::move(kernel)}, 0};
}

}  // namespace

CudaKernels cuda_library_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                 const cuda::AttentionTiles& tiles) {
  if (node.op == ir::Op::attention) return cuda_attention_forward(graph, node, gpu, tiles);
  if (node.op == ir::Op::attention_backward) return cuda_attention_backward(graph, node, gpu, tiles);
  if (node.op == ir::Op::embedding_backward) return cuda_embedding_backward(graph, node, gpu);
  if (node.op == ir::Op::transpose) return transpose(graph, node, gpu);
  if (node.op == ir::Op::cache_append) return cuda_cache_append(graph, node, gpu);
  if (node.op == ir::Op::attention_decode) return cuda_attention_decode(graph, node, gpu);
  if (node.op == ir::Op::top_logits) return cuda_top_logits(graph, node, gpu);
  throw std::logic_error("no cuda kernel for " + to_string(node.op));
}

}  // namespace hydrac::codegen
