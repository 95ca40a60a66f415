// Runs the blocks of a launch one after another, every CUDA thread as a fiber: each runs until it must wait
// for others, then the next one does. What could hang or give garbage on a GPU ends the launch with an
// EmulationError instead.
#pragma once
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation_state.h"
#include "fiber.h"

namespace hydrac::emulation {

struct EmulationError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// In which order blocks run, warps between two barriers, and lanes between two exchanges. Two accesses of a
// race happen in the one order when ascending and in the other when descending.
enum class Order { ascending, descending };

struct Geometry {
  uint3 grid{1, 1, 1};
  uint3 block{1, 1, 1};
  std::size_t shared_bytes = 0;  // dynamic
};

class BlockScheduler {
 public:
  // `what` names the kernel in messages.
  void launch(const std::string& what, const Library& library, const Kernel& kernel, const Geometry& geometry,
              void* const* arguments, Order order);

 private:
  enum class Waits { no, barrier, named_barrier, exchange, change, returned };
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
    int group;
  };
  struct Thread {
    Fiber fiber;
    uint3 index;
    Waits waits = Waits::no;
    Site site{};
    int predicate = 0;        // passed to the barrier
    int barrier = 0;          // of the named barrier: its name
    unsigned expected = 0;    // and how many threads it is for
    unsigned mask = 0;        // of the exchange
    std::uint64_t value = 0;  // passed to the exchange
    std::deque<Copy> copies;  // under way, in their order
    int groups = 0;           // of copies, committed
  };
  struct Warp {
    std::uint64_t exchanged[kWarp];  // what the lanes passed to the exchange that they just left
  };

  void prepare_threads();
  void poison_shared_memory();
  void check_shared_memory() const;
  void run_block();
  bool run_warp(unsigned warp);
  bool meets(const Thread& thread, unsigned first, unsigned lane) const;
  bool finish_exchanges(unsigned warp);
  bool finish_named_barriers();
  bool look_again();
  bool finish_barrier();
  void resume(unsigned thread);

  void refuse_exchange(unsigned warp) const;
  std::string thread_name(unsigned thread) const;
  std::string where(unsigned thread) const;
  std::string place(const Site& site) const;
  [[noreturn]] void stop(const std::string& message) const;

  static void run_thread(void* self);
  static int wait_barrier(int predicate, Site site);
  static void wait_named_barrier(int name, int threads, Site site);
  static void yield(Site site);
  static const std::uint64_t* wait_exchange(unsigned mask, std::uint64_t value, Site site);
  static void copy_later(void* to, const void* from, std::size_t bytes);
  static void commit_copies();
  static void wait_copies();
  static void wait_copies_before(int later);
  static void finish_copies(int groups);
  [[noreturn]] static void fail(const char* what, Site site);

  std::string what_;
  const Kernel* kernel_ = nullptr;
  State* state_ = nullptr;
  void* const* arguments_ = nullptr;
  Order order_ = Order::ascending;
  std::size_t shared_bytes_ = 0;
  unsigned char* dynamic_shared_ = nullptr;
  unsigned char* shared_begin_ = nullptr;  // the library's TLS segment: static and dynamic shared memory
  unsigned char* shared_end_ = nullptr;

  std::vector<std::unique_ptr<Thread>> threads_;  // kept from launch to launch
  std::vector<Warp> warps_;
  unsigned thread_count_ = 0;
  unsigned current_ = 0;
  int vain_looks_ = 0;   // rounds in which threads did nothing but look at memory
  int passed_ = 0;       // predicates of the barrier that was just left
  std::string failure_;  // set by a thread that ends the launch
};

}  // namespace hydrac::emulation
