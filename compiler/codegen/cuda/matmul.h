// A "fused_matmul" as a problem of our matmul kernel, and how that is launched.
#pragma once
#include "cuda/matmul/geometry.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// Columns of a row that the matmul's kernel gives its epilogue at a time.
inline constexpr int kColumnsOfAnEpilogue = 8;

struct MatmulPlan {
  cuda::MatmulProblem problem;
  cuda::MatmulTile tile;
};

// `node`: a "fused_matmul", or the epilogue of one.
MatmulPlan plan_matmul(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

}  // namespace hydrac::codegen
