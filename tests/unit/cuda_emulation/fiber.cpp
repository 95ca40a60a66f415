#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace hydrac::emulation {

namespace {

constexpr std::size_t kGuardPage = 4096;
constexpr std::size_t kStackBytes = 64 * 1024;

}  // namespace

#if defined(__x86_64__)

// Saves what a call must preserve, swaps stacks. swapcontext() would do, but for a system call each time.
extern "C" void hydrac_switch_stack(void** save, void* load);
asm(R"(
.text
.globl hydrac_switch_stack
.type hydrac_switch_stack, @function
hydrac_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hydrac_switch_stack, .-hydrac_switch_stack

# Where a new fiber's first switch returns to: start() left `enter` in rbx and its argument in r12.
.globl hydrac_begin_fiber
.type hydrac_begin_fiber, @function
hydrac_begin_fiber:
  movq %r12, %rdi
  callq *%rbx
  ud2
.size hydrac_begin_fiber, .-hydrac_begin_fiber
)");
extern "C" void hydrac_begin_fiber();

#endif

Fiber::Fiber() {
  memory_ = ::mmap(nullptr, kGuardPage + kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED || ::mprotect(memory_, kGuardPage, PROT_NONE) != 0) throw std::bad_alloc();
}

Fiber::~Fiber() {
  ::munmap(memory_, kGuardPage + kStackBytes);
}

void Fiber::enter(Fiber* self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_size_);
#endif
  self->entry_(self->argument_);
}

void Fiber::start(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  char* const bottom = static_cast<char*>(memory_) + kGuardPage;
  // Stacks begin at different offsets in their pages, or a block's would share a few sets of the cache.
  const std::size_t bytes = kStackBytes - reinterpret_cast<std::uintptr_t>(memory_) / 4096 % 64 * 64;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(bottom, kStackBytes);
  fake_stack_ = nullptr;
#endif
#if defined(__x86_64__)
  // As hydrac_switch_stack leaves it: r15, r14, r13, r12, rbx, rbp, the address to return to, and then a
  // stack that is aligned to 16 bytes.
  std::uintptr_t* const top = reinterpret_cast<std::uintptr_t*>(bottom + bytes) - 2;
  std::uintptr_t* const frame = top - 7;
  for (int i = 0; i < 7; ++i) frame[i] = 0;
  frame[3] = reinterpret_cast<std::uintptr_t>(this);
  frame[4] = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  frame[6] = reinterpret_cast<std::uintptr_t>(&hydrac_begin_fiber);
  own_ = frame;
#else
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = bottom;
  own_.uc_stack.ss_size = bytes;
  own_.uc_link = nullptr;
  const std::uintptr_t self = reinterpret_cast<std::uintptr_t>(this);
  void (*begin)(unsigned, unsigned) = [](unsigned high, unsigned low) {
    enter(reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low)));
  };
  ::makecontext(&own_, reinterpret_cast<void (*)()>(begin), 2,
                static_cast<unsigned>(std::uint64_t{self} >> 32), static_cast<unsigned>(self));
#endif
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, static_cast<char*>(memory_) + kGuardPage, kStackBytes);
#endif
#if defined(__x86_64__)
  hydrac_switch_stack(&caller_, own_);
#else
  ::swapcontext(&caller_, &own_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::suspend([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, caller_stack_, caller_size_);
#endif
#if defined(__x86_64__)
  hydrac_switch_stack(&own_, caller_);
#else
  ::swapcontext(&own_, &caller_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_size_);
#endif
}

}  // namespace hydrac::emulation
