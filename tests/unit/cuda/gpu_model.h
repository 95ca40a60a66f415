// Small models lowered for a GPU, up to the graph that code generation takes. Those with an objective
// generate with a cache.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "../core/small_models.h"
#include "models/transformer.h"
#include "optimizers/optimizer.h"
#include "passes/passes.h"

namespace hydrac::test {

struct GpuModel {
  // `matmuls`: which matmuls become kernels of ours; nothing: none. `fp8`: which are of 8 bits, likewise.
  // `head_parts`: nothing: the head is not made a loop.
  GpuModel(spec::Spec spec, ir::DType activations, passes::RecomputeChoice recompute = {},
           const std::optional<passes::FusedMatmuls>& matmuls = {},
           const std::optional<passes::Fp8>& fp8 = {},
           const std::optional<passes::HeadParts>& head_parts = {});

  spec::Spec spec;
  ir::Graph graph;
  models::Interface interface;
  models::Pack pack;
};

// Numbers for everything that kernels may read, exact in their storage types. What must be positive is.
void randomize(const GpuModel& model, Interpreter& state);

// The nearest number that the type can store.
double rounded(ir::DType dtype, double x);

}  // namespace hydrac::test
