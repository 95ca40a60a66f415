// Matrices that a kernel reads through tensor maps (TMA).
#pragma once
#include <string>

#include "codegen/cuda/kernel.h"
#include "cuda/matmul/problem.h"

namespace hydrac::codegen {

// Takes the matrix as the kernel's next parameter. `box`: the box's rows and columns as the kernel's
// constants name them; "" for the numbers.
inline void take_map(CudaKernel& kernel, const ir::Graph& graph, const std::string& name, ir::Use use,
                     const cuda::MatmulMap& map, std::string box = "") {
  const ir::Value& matrix = graph.value(use);
  if (box.empty()) box = fmt::format("{}, {}", map.box[1], map.box[0]);
  kernel.maps.push_back({matrix.dtype, map.size[1], map.size[0], map.box[1], map.box[0], std::move(box)});
  kernel.take("const __grid_constant__ TensorMap", name, matrix.shape, use);
}

}  // namespace hydrac::codegen
