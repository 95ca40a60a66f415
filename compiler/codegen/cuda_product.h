// A "fused_product" as a problem of our product kernel.
#pragma once
#include "cuda/product/geometry.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// Columns of a row that the product's kernel gives its epilogue at a time.
inline constexpr int kColumnsOfAnEpilogue = 8;

// `node`: a "fused_product", or the epilogue of one.
cuda::ProductProblem product_problem(const ir::Graph& graph, const ir::Node& node,
                                     const targets::Target& gpu);

}  // namespace hydrac::codegen
