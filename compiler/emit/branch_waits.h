// Which calls of a function wait for which of its other branch, said once for every iteration of a loop.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "driver/compile.h"

namespace hydrac::emit {

// A call by its place: section and position there.
using CallPosition = std::pair<int, int>;

struct BranchWaits {
  bool has_two = false;  // some call runs beside the others
  // For each call that waits, those of the other branch whose latest run it waits for. In a loop that is what
  // any of its iterations needs.
  std::map<CallPosition, std::set<CallPosition>> waits;
  // The calls that others wait for: the name of the point behind them.
  std::map<CallPosition, std::string> marks;
};

BranchWaits branch_waits(const driver::Compiled& compiled, const program::Function& function);

}  // namespace hydrac::emit
