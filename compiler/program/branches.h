// Two branches of a CUDA graph from a list of calls: which call must wait for which of the other branch, so
// that the result is that of running them one after another. Calls touch byte ranges of the arena; two
// conflict when their ranges overlap and one of them writes. So memory that the plan gave to two tensors in
// turn orders their calls too.
#pragma once
#include <cstdint>
#include <vector>

namespace hydrac::program {

struct Access {
  int64_t first = 0, last = 0;  // bytes [first, last) of the arena
  bool writes = false;
};

struct BranchStep {
  std::vector<Access> accesses;
  int branch = 0;  // 0 or 1
};

// For each step the latest step of the other branch that it must wait for, or -1 where an earlier step of its
// own branch waits for one as late already, or none is needed.
std::vector<int> waits_between_branches(const std::vector<BranchStep>& steps);

}  // namespace hydrac::program
