#include "program/queues.h"

#include <algorithm>
#include <array>

namespace hydrac::program {

namespace {

bool conflict(const QueueStep& a, const QueueStep& b) {
  return std::ranges::any_of(a.accesses, [&](const Access& x) {
    return std::ranges::any_of(b.accesses, [&](const Access& y) {
      return (x.writes || y.writes) && x.first < y.last && y.first < x.last;
    });
  });
}

}  // namespace

std::string_view to_string(Queue queue) {
  static constexpr std::array<std::string_view, kQueues> kNames = {"main", "side", "communication",
                                                                   "host_copies"};
  return kNames.at(static_cast<size_t>(queue));
}

std::vector<std::vector<int>> waits_between_queues(const std::vector<QueueStep>& steps) {
  std::vector<std::vector<int>> waits(steps.size());
  // The latest step of each queue that each queue has waited for.
  std::array<std::array<int, kQueues>, kQueues> waited;
  for (auto& of_queue : waited) of_queue.fill(-1);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto own = static_cast<size_t>(steps[i].queue);
    for (size_t other = 0; other < kQueues; ++other) {
      if (other == own) continue;
      for (int j = static_cast<int>(i) - 1; j > waited[own][other]; --j) {
        const QueueStep& earlier = steps[static_cast<size_t>(j)];
        if (static_cast<size_t>(earlier.queue) != other || !conflict(steps[i], earlier)) continue;
        waits[i].push_back(j);
        waited[own][other] = j;
        break;
      }
    }
  }
  return waits;
}

}  // namespace hydrac::program
