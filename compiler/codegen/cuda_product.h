// A "fused_product" as a problem of our product kernels, and the one of them that computes it.
#pragma once
#include <array>
#include <string>

#include "cuda/product/geometry.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// Columns of a row that the product's kernel gives its epilogue at a time; as many elements of any rows and
// columns where it is elementwise.
inline constexpr int kColumnsOfAnEpilogue = 8;

// `node`: a "fused_product", or the epilogue of one.
cuda::ProductProblem product_problem(const ir::Graph& graph, const ir::Node& node,
                                     const targets::Target& gpu);

// What a kernel over one of the templates needs to know of it.
struct ProductTemplate {
  std::string header;    // cuda/product/product.cuh
  std::string function;  // what a kernel calls there: cuda::product
  std::string config;    // its template of configurations
  std::string tile;      // the last argument of that
  cuda::ProductLaunch launch;
  std::array<cuda::ProductMap, 2> maps;
  cuda::ProductMap matrix_map = {};  // of each matrix that an elementwise epilogue writes
  int64_t sums_rows = 0;             // of the workspace of each column sum
};

// `node`: as above; its attribute "kernel" says which template.
ProductTemplate product_template(const ir::Node& node, const cuda::ProductProblem& problem);

}  // namespace hydrac::codegen
