#include "program/branches.h"

#include <algorithm>
#include <array>

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

std::vector<std::vector<int>> waits_between_branches(const std::vector<BranchStep>& steps) {
  std::vector<std::vector<int>> waits(steps.size());
  // The latest step of each branch that each branch has waited for.
  std::array<std::array<int, kBranches>, kBranches> waited;
  for (auto& of_branch : waited) of_branch.fill(-1);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto own = static_cast<size_t>(steps[i].branch);
    for (size_t other = 0; other < kBranches; ++other) {
      if (other == own) continue;
      for (int j = static_cast<int>(i) - 1; j > waited[own][other]; --j) {
        const BranchStep& earlier = steps[static_cast<size_t>(j)];
        if (earlier.branch != static_cast<int>(other) || !conflict(steps[i], earlier)) continue;
        waits[i].push_back(j);
        waited[own][other] = j;
        break;
      }
    }
  }
  return waits;
}

}  // namespace hydrac::program
