// Where the calls of a program say that they were made, one by one and in the order of its CallTable:
// whatever starts a kernel, a matmul or attention calls after_call() next. As a rule nobody listens, and it
// costs a test of a pointer.
#pragma once
#include <functional>

namespace hydrac::runtime {

void after_call();

// While it lives, after_call() on this thread calls `told`, which may throw: the calls that follow are not
// made then.
class CallListener {
 public:
  explicit CallListener(std::function<void()> told);
  ~CallListener();
  CallListener(const CallListener&) = delete;
  CallListener& operator=(const CallListener&) = delete;

 private:
  std::function<void()> told_;
  std::function<void()>* before_;
};

}  // namespace hydrac::runtime
