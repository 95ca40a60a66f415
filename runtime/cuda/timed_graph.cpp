#include "runtime/cuda/timed_graph.h"

#include <algorithm>

#include "runtime/log/monotonic.h"

namespace hydrac::runtime::cuda {

TimedGraph::TimedGraph(const Stream& stream, const std::function<void()>& record) {
  std::vector<const void*> queues = {stream.handle()};
  const CallListener listener(
      [&](void* queue) { calls_.back().ended.record_in_graph(static_cast<abi::CUstream>(queue)); },
      [&](void* queue) {
        Call& call = calls_.emplace_back();
        const auto found = std::ranges::find(queues, queue);
        call.queue = static_cast<int>(found - queues.begin());
        if (found == queues.end()) queues.push_back(queue);
        call.began.record_in_graph(static_cast<abi::CUstream>(queue));
      });
  graph_ = Graph::capture(stream, record);
}

std::vector<CallTimes> TimedGraph::run(const Stream& stream) const {
  stream.synchronize();
  const Event start(Event::Use::timing);
  const double now = monotonic_seconds();
  start.record(stream);
  graph_.launch(stream);
  stream.synchronize();
  std::vector<CallTimes> times;
  for (const Call& call : calls_) {
    times.push_back(
        {call.queue, now + 1e-3 * call.began.ms_since(start), now + 1e-3 * call.ended.ms_since(start)});
  }
  return times;
}

}  // namespace hydrac::runtime::cuda
