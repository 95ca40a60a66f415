// The queues of a program: a GPU runs each queue in order, and the queues concurrently. This computes which
// call must wait for which call of another queue, so that the result is that of running them one after
// another. Two calls conflict if byte ranges of the arena that they touch overlap and one of them writes. So
// the order also covers memory that the plan reuses.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace hydrac::program {

// A stream of a GPU, and a branch of its graph: side branches fork from the main one and join it. A program
// for the cpu has only the main one.
enum class Queue {
  main,           // what everything else follows
  side,           // gradients of parameters, which nobody reads before the update
  communication,  // sums of these over ranks
  host_copies     // to the host's memory and back
};
inline constexpr size_t kQueues = 4;

std::string_view to_string(Queue queue);  // as above

struct Access {
  int64_t first = 0, last = 0;  // bytes [first, last) of the arena
  bool writes = false;
};

struct QueueStep {
  std::vector<Access> accesses;
  Queue queue = Queue::main;
};

// For each step, the latest step of each other queue that it must wait for. Redundant waits are left out:
// those that an earlier step of its own queue has made already, also for a later step of that other queue.
std::vector<std::vector<int>> waits_between_queues(const std::vector<QueueStep>& steps);

}  // namespace hydrac::program
