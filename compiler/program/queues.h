// The queues of a program: a GPU runs what is on one of them in order, and the queues side by side. Which
// call must wait for which of another queue, so that the result is that of running them one after another.
// Calls touch byte ranges of the arena; two conflict when their ranges overlap and one of them writes. So
// memory that the plan gave to two tensors in turn orders their calls too.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace hydrac::program {

// A stream of a GPU, and a branch of its graph: the others leave the main one and come back to it. A program
// for the cpu has the main one alone.
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

// For each step, of each other queue the latest step that it must wait for. Left out is what an earlier step
// of its own queue has waited for already, or a later one of the same other queue.
std::vector<std::vector<int>> waits_between_queues(const std::vector<QueueStep>& steps);

}  // namespace hydrac::program
