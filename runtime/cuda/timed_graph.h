// A CUDA graph that records when each of its calls runs: events stand before and after every call, on the
// call's own branch, so branches overlap as they do without. What the events cost is a microsecond or two a
// call, and kernels do not start before the one ahead of them ends.
#pragma once
#include <functional>
#include <vector>

#include "runtime/cuda/stream.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

class TimedGraph {
 public:
  // Captures what `record` puts on `stream` and on branches forked from it, as Graph::capture().
  TimedGraph(const Stream& stream, const std::function<void()>& record);

  // Launches it, waits for it, and tells when its calls ran, in the order in which they were captured. Queue
  // 0 is the stream, 1 the first that is forked from it, and so on.
  std::vector<CallTimes> run(const Stream& stream) const;

 private:
  struct Call {
    int queue = 0;
    Event began{Event::Use::timing}, ended{Event::Use::timing};
  };
  std::vector<Call> calls_;
  Graph graph_;  // goes before the events that it records
};

}  // namespace hydrac::runtime::cuda
