#include "codegen/cuda/library.h"

#include <stdexcept>

#include "codegen/cuda/attention.h"
#include "codegen/cuda/cache.h"
#include "codegen/cuda/embedding.h"
#include "codegen/cuda/experts.h"
#include "codegen/row_history.h"
#include "cuda/transpose_geometry.h"

namespace hydrac::codegen {

namespace {

CudaKernels transpose(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const ir::Value& x = graph.value(node.inputs[0]);
  const Dimensions dimensions(graph);
  const ir::Shape rows(x.shape.begin(), x.shape.end() - 1);
  CudaKernel kernel;
  kernel.name = "transpose";
  kernel.header = "cuda/transpose.cuh";
  kernel.comment = "y = x^T, of 8-bit elements";
  kernel.launch = {cuda::transpose_blocks(element_count(rows), x.shape.back().size), cuda::kTransposeThreads,
                   0, "kBlocks"};
  kernel.text.sizes = launch_constants(kernel.launch);
  kernel.text.attributes = kernel_attributes();
  kernel.read(graph, "x", node.inputs[0]);
  kernel.write(graph, "y", node.outputs[0]);
  open_body(kernel.text, gpu);
  kernel.text.body.line("cuda::transpose<{}, {}>(&x->bits, &y->bits);", dimensions.of(rows),
                        dimensions.of(x.shape.back()));
  return {{std::move(kernel)}, 0};
}

}  // namespace

CudaKernels cuda_library_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                 const cuda::AttentionTiles& tiles) {
  if (node.op == ir::Op::attention) return cuda_attention_forward(graph, node, gpu, tiles);
  if (node.op == ir::Op::attention_backward) return cuda_attention_backward(graph, node, gpu, tiles);
  if (node.op == ir::Op::embedding_backward) return cuda_embedding_backward(graph, node, gpu);
  if (node.op == ir::Op::transpose) return transpose(graph, node, gpu);
  if (node.op == ir::Op::expert_rows) return cuda_expert_rows(graph, node, gpu);
  if (node.op == ir::Op::grouped_matmul) return cuda_grouped_matmul(graph, node, gpu);
  if (node.op == ir::Op::grouped_weight_gradient) return cuda_grouped_weight_gradient(graph, node, gpu);
  if (node.op == ir::Op::cache_append) return cuda_cache_append(graph, node, gpu);
  if (node.op == ir::Op::attention_decode) return cuda_attention_decode(graph, node, gpu);
  if (node.op == ir::Op::top_logits) return cuda_top_logits(graph, node, gpu);
  if (node.op == ir::Op::history_append || node.op == ir::Op::history_window)
    return cuda_row_history(graph, node, gpu);
  throw std::logic_error("no cuda kernel for " + to_string(node.op));
}

}  // namespace hydrac::codegen
