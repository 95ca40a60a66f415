// A "fused_matmul" as a problem of our matmul kernels, and the one of them that computes it.
#pragma once
#include <array>
#include <string>

#include "cuda/matmul/geometry.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// Columns of a row that the matmul's kernel gives its epilogue at a time; as many elements of any rows and
// columns where it is elementwise.
inline constexpr int kColumnsOfAnEpilogue = 8;

// `node`: a "fused_matmul", or the epilogue of one.
cuda::MatmulProblem matmul_problem(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

// What a kernel over one of the templates needs to know of it.
struct MatmulTemplate {
  std::string header;    // cuda/matmul/matmul.cuh
  std::string function;  // what a kernel calls there: cuda::matmul
  std::string config;    // its template of configurations
  std::string tile;      // the last argument of that
  cuda::MatmulLaunch launch;
  std::array<cuda::MatmulMap, 2> maps;
  cuda::MatmulMap matrix_map = {};  // of each matrix that an elementwise epilogue writes
  int64_t sums_rows = 0;            // of the workspace of each column sum
};

// `node`: as above; its attribute "kernel" says which template.
MatmulTemplate matmul_template(const ir::Node& node, const cuda::MatmulProblem& problem);

}  // namespace hydrac::codegen
