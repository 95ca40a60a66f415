#include "runtime/cuda/timed_graph.h"

#include "runtime/log/monotonic.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

TimedGraph::TimedGraph(const Stream& stream, const std::function<void()>& record) {
  const CallListener listener(
      [&](void* queue) { calls_.back().ended.record_in_graph(static_cast<abi::CUstream>(queue)); },
      [&](void* queue) {
        Call& call = calls_.emplace_back();
        call.beside = queue != stream.handle();
        call.began.record_in_graph(static_cast<abi::CUstream>(queue));
      });
  graph_ = Graph::capture(stream, record);
}

std::vector<TimedGraph::Times> TimedGraph::run(const Stream& stream) const {
  stream.synchronize();
  const Event start(Event::Use::timing);
  const double now = monotonic_seconds();
  start.record(stream);
  graph_.launch(stream);
  stream.synchronize();
  std::vector<Times> times;
  for (const Call& call : calls_) {
    times.push_back(
        {call.beside, now + 1e-3 * call.began.ms_since(start), now + 1e-3 * call.ended.ms_since(start)});
  }
  return times;
}

}  // namespace hydrac::runtime::cuda
