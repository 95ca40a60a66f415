// Tensors of which each rank has some rows, as checkpoints know them.
#pragma once
#include <vector>

#include "runtime/train/step_program.h"

namespace hydrac::runtime {

// Rows that ranks share: of `rows` of all ranks together, in their order, each holds `own` at the same place;
// where these are more than `rows`, the last ranks' end in padding.
struct SharedRows {
  int64_t rows = 0, own = 0;
};

// `own`: the tensor as a rank has it, [the sum of its own rows, ...]. The result is that of all ranks.
NamedTensor shared_by_ranks(NamedTensor own, const std::vector<SharedRows>& stretches);

}  // namespace hydrac::runtime
