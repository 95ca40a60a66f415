// The order in which one row of a Body is computed, for every target: stages, separated by sets of
// reductions.
#pragma once
#include <vector>

#include "ir/body.h"

namespace hydrac::codegen {

// One pass over a column space.
struct Loop {
  int space = ir::kRowSpace;
  std::vector<ir::ExprId> reductions;  // that this pass accumulates
  std::vector<int> stores;             // positions in Body::stores, column sums among them
};

// Everything that can be computed once the reductions of the stages before it are known.
struct Stage {
  std::vector<Loop> loops;
  std::vector<int> row_stores;  // of row values, after the loops
};

std::vector<Stage> stages_of(const ir::Body& body, const std::vector<ir::Dependence>& deps,
                             const std::vector<bool>& live);

}  // namespace hydrac::codegen
