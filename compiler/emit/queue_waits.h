// Waits of a function's calls for its other queues, said once for every iteration of a loop.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "driver/compile.h"

namespace hydrac::emit {

// A call by its place: section and position there.
using CallPosition = std::pair<int, int>;

// Why a call waits for another: the first of its tensors that shares bytes with one of the other's, of which
// one writes them.
struct WaitReason {
  ir::Use own, other;
  bool own_writes = false, other_writes = false;
};

struct QueueWaits {
  std::set<program::Queue> forks;  // the queues that leave the main one
  // For each call that waits, those of other queues whose latest run it waits for. In a loop that is what
  // any of its iterations needs, and the reason is that of the first that waits.
  std::map<CallPosition, std::map<CallPosition, WaitReason>> waits;
  // The calls that others wait for: the name of the point behind them, "after_" and what the call is named.
  std::map<CallPosition, std::string> marks;
  // The subset that a loop's calls wait for two iterations later, and not in the next one: these have a point
  // for even layers and one for odd ones.
  std::set<CallPosition> by_turns;
};

QueueWaits queue_waits(const driver::Compiled& compiled, const program::Function& function);

}  // namespace hydrac::emit
