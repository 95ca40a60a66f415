// What a library of emulated kernels and the scheduler that runs it know of each other: the scheduler sets
// where a kernel stands, and the kernel calls back when a thread must wait for others.
#pragma once
#include <cstddef>
#include <cstdint>

// Named as CUDA names it: the type of threadIdx.
struct uint3 {
  unsigned x, y, z;
};

namespace hydrac::emulation {

constexpr int kWarp = 32;
constexpr std::size_t kMostSharedBytes = std::size_t{227} * 1024;  // dynamic, of a block: what sm_90 allows
constexpr std::size_t kGuardBytes = 256;                           // behind a block's dynamic shared memory

// Where in the source a thread waits, and in which intrinsic.
struct Site {
  const char* intrinsic;
  const char* file;
  int line;
};

struct State {
  uint3 thread, block, block_size, grid_size;

  // Waits for every thread of the block; returns how many of them passed a predicate that is not 0.
  int (*barrier)(int predicate, Site site);
  // bar.sync: waits until `threads` threads of the block wait at the barrier `name`, 1 to 15.
  void (*named_barrier)(int name, int threads, Site site);
  // Waits for every lane that `mask` names; returns what the 32 lanes passed, valid until the thread waits
  // again.
  const std::uint64_t* (*exchange)(unsigned mask, std::uint64_t value, Site site);
  // For loops that look at memory again and again: lets the block's other threads run first.
  void (*yield)(Site site);
  // cp.async: a copy of this thread that happens in the last moment, when the thread waits for it.
  // commit_copies makes a group of those since the last call; the waits are for all, and for all groups but
  // the latest.
  void (*copy_later)(void* to, const void* from, std::size_t bytes);
  void (*commit_copies)();
  void (*wait_copies)();
  void (*wait_copies_before)(int later);
  // Ends the launch with an error: the thread `what`, e.g. "traps".
  [[noreturn]] void (*fail)(const char* what, Site site);
};

// One kernel of a library, under the symbol NAME__emulated.
struct Kernel {
  void (*call)(void* const* arguments);  // as cuLaunchKernel takes them: the address of each argument
  const std::size_t* parameter_sizes;
  std::size_t parameters;
};

// The library itself, under the symbol hydrac_emulated_library.
struct Library {
  State* state;
  unsigned char* (*dynamic_shared)();  // the calling thread's, kMostSharedBytes + kGuardBytes
};

}  // namespace hydrac::emulation
