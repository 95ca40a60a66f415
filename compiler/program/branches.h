// Branches of a CUDA graph from a list of calls: which call must wait for which of another branch, so that
// the result is that of running them one after another. Calls touch byte ranges of the arena; two conflict
// when their ranges overlap and one of them writes. So memory that the plan gave to two tensors in turn
// orders their calls too.
#pragma once
#include <cstdint>
#include <vector>

namespace hydrac::program {

// The branches of a program (Call::branch): what everything else follows; gradients of parameters; sums of
// these over ranks; copies to the host's memory and back. The others leave the first one and come back to it.
inline constexpr int kMainBranch = 0, kGradientBranch = 1, kSumBranch = 2, kHostBranch = 3, kBranches = 4;

struct Access {
  int64_t first = 0, last = 0;  // bytes [first, last) of the arena
  bool writes = false;
};

struct BranchStep {
  std::vector<Access> accesses;
  int branch = 0;  // 0 to kBranches - 1
};

// For each step, of each other branch the latest step that it must wait for. Left out is what an earlier step
// of its own branch has waited for already, or a later one of the same other branch.
std::vector<std::vector<int>> waits_between_branches(const std::vector<BranchStep>& steps);

}  // namespace hydrac::program
