// Kernels of mixtures of experts: rows sorted by expert, their matmuls and the gradients of their matrices.
#pragma once
#include "codegen/cuda/kernel.h"
#include "targets/target.h"

namespace hydrac::codegen {

// An "expert_rows": cuda/expert_rows.cuh. Experts' rows begin at multiples of cuda::kExpertRows.
CudaKernels cuda_expert_rows(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

// A "grouped_matmul" that no other node is fused with, and a "grouped_weight_gradient": on Hopper's tensor
// cores where these take the types and sizes, else cuda/matmul/plain_experts.cuh.
CudaKernels cuda_grouped_matmul(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);
CudaKernels cuda_grouped_weight_gradient(const ir::Graph& graph, const ir::Node& node,
                                         const targets::Target& gpu);

}  // namespace hydrac::codegen
