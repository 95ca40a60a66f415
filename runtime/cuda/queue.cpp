#include "runtime/cuda/queue.h"

namespace hydrac::runtime::cuda {

void Queue::mark(Mark& mark) const {
  if (!mark.event_) mark.event_.emplace();
  mark.event_->record(stream_);
}

void Queue::wait(const Mark& mark) const {
  if (mark.event_) stream_.wait(*mark.event_);
}

void Queue::follow(const Queue& other) const {
  Event now;
  now.record(other.stream_);
  stream_.wait(now);
}

void Queue::run(const GemmProblem& problem, void* c, const void* a, const void* b,
                const MatmulOptions& options) const {
  GemmArguments arguments;
  arguments.a = a;
  arguments.b = b;
  arguments.d = c;
  arguments.bias = options.bias;
  arguments.a_scale = options.a_scale;
  arguments.b_scale = options.b_scale;
  matmuls_.run(problem, arguments, stream_, workspace_);
}

}  // namespace hydrac::runtime::cuda
