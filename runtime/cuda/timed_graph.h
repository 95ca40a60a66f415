// A CUDA graph that records when each of its calls runs. Events before and after every call lie on the call's
// own branch, so branches overlap as usual. They cost a microsecond or two a call, and prevent kernels from
// starting before the previous one ends.
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

  // Launches the graph, waits for it, and returns when its calls ran, in capture order. Queue 0 is the
  // stream, 1 the first that forks from it, and so on.
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
