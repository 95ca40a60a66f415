// Hooks around the calls of a program, one by one and in the order of its CallTable: code that starts a
// kernel, a matmul or attention calls before_call() first and after_call() next. Without a listener, which is
// the normal case, they cost a null check.
#pragma once
#include <functional>

namespace hydrac::runtime {

// When a call ran, as monotonic_seconds(), and on which queue: 0, or another if several run concurrently
// (CallSpan).
struct CallTimes {
  int queue = 0;
  double began = 0, ended = 0;
};

// `queue`: the CUDA stream's handle that the call is put on; nullptr on the processor.
void before_call(void* queue = nullptr);
void after_call(void* queue = nullptr);

// During its lifetime, after_call() on this thread calls `after`, which may throw to stop the calls that
// follow. before_call() calls `before`, if there is one.
class CallListener {
 public:
  using Told = std::function<void(void* queue)>;
  explicit CallListener(Told after, Told before = {});
  ~CallListener();
  CallListener(const CallListener&) = delete;
  CallListener& operator=(const CallListener&) = delete;

 private:
  friend void before_call(void* queue);
  friend void after_call(void* queue);

  Told after_, before_;
  CallListener* outer_;  // that listened until this one came
};

}  // namespace hydrac::runtime
