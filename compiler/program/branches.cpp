#include "program/branches.h"

#include <algorithm>

namespace hydrac::program {

namespace {

bool conflict(const BranchStep& a, const BranchStep& b) {
  return std::ranges::any_of(a.accesses, [&](const Access& x) {
    return std::ranges::any_of(b.accesses, [&](const Access& y) {
      return (x.writes || y.writes) && x.first < y.last && y.first < x.last;
    });
  });
}

}  // namespace

std::vector<int> waits_between_branches(const std::vector<BranchStep>& steps) {
  std::vector<int> waits(steps.size(), -1);
  int waited[2] = {-1, -1};  // the latest step that each branch has waited for
  for (size_t i = 0; i < steps.size(); ++i) {
    for (int j = static_cast<int>(i) - 1; j > waited[steps[i].branch]; --j) {
      const BranchStep& earlier = steps[static_cast<size_t>(j)];
      if (earlier.branch == steps[i].branch || !conflict(steps[i], earlier)) continue;
      waits[i] = waited[steps[i].branch] = j;
      break;
    }
  }
  return waits;
}

}  // namespace hydrac::program
