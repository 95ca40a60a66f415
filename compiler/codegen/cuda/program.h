// From the lowered graph to a Program for the cuda target.
#pragma once
#include <functional>

#include "cuda/attention/geometry.h"
#include "program/program.h"
#include "targets/target.h"

namespace hydrac::codegen {

struct CudaOptions {
  const targets::Target* gpu = nullptr;
  // The device memory that cuDNN needs for an attention node; nullopt: generated kernels compute it.
  std::function<std::optional<int64_t>(const program::AttentionShape&)> cudnn_workspace;
  int64_t gemm_workspace_bytes = 0;           // shared by all matmuls of a queue
  int streams = 1;                            // 2: gradients of parameters may be computed on the side stream
  cuda::AttentionTiles attention_tiles = {};  // what our attention kernels are asked to take
};

// Generates the kernels of a graph whose nodes are fused or library nodes, and lists the calls. Kernels with
// the same text are one. Scratch memory becomes values of the graph. A program with a token embedding also
// gets the input "token_order", i32 [B*T]: the positions of the micro-batch's tokens sorted by token id,
// equal ids in order of position. The host writes it with the tokens. Likewise "position_order" of the input
// "positions", where these are learned. The memory plan must come after.
program::Program build_cuda_program(ir::Graph& graph, const CudaOptions& options);

// The CUDA C++ source of some of a Program's kernels: one translation unit of extern "C" kernels over the
// headers of templates/, in namespace hydrac behind the dimensions that they name.
std::string cuda_source(const program::Program& program, const std::vector<const program::Kernel*>& kernels);

}  // namespace hydrac::codegen
