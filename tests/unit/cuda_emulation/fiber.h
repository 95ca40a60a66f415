// A function that runs on a stack of its own and hands the processor back and forth with its caller.
#pragma once
#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace hydrac::emulation {

class Fiber {
 public:
  // Owns a stack of 64 KiB with a page below it that faults.
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next resume() call entry(argument). It must not return, but suspend()
  // for good. What the stack held before is forgotten, without unwinding.
  void start(void (*entry)(void*), void* argument);

  // Runs it until it suspends itself. Not from within a fiber.
  void resume();
  // From within: back to the resume() that runs it. `for_good`: it will not be resumed before the next
  // start().
  void suspend(bool for_good = false);

 private:
  static void enter(Fiber* self);

  void* memory_ = nullptr;  // the guard page and the stack
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
#if defined(__x86_64__)
  void* own_ = nullptr;     // stack pointer while suspended
  void* caller_ = nullptr;  // that of resume()
#else
  ucontext_t own_{}, caller_{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_size_ = 0;
#endif
};

}  // namespace hydrac::emulation
