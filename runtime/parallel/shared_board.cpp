#include "runtime/parallel/shared_board.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "runtime/error.h"
#include "runtime/parallel/cores.h"
#include "runtime/parallel/world.h"

namespace hydrac::runtime {

struct SharedBoard::Header {
  std::atomic<uint32_t> failed;
  std::atomic<uint32_t> arrived;  // at the barrier of this phase
  std::atomic<uint32_t> phase;
  uint32_t words[2][kMostRanks];
};

namespace {

constexpr size_t kHeaderBytes = 4096;
static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share it");

size_t bytes_of(int ranks) {
  return kHeaderBytes + static_cast<size_t>(ranks + 1) * SharedBoard::kSlotBytes;
}

// Returns after a wake-up, a change of `word` or 50 ms, whichever is first.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  timespec most{.tv_sec = 0, .tv_nsec = 50'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &most, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int SharedBoard::create(int ranks) {
  const int file = ::memfd_create("hydrac-ranks", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_of(ranks))) != 0)
    throw RunError(fmt::format("cannot make memory for {} ranks to share: {}", ranks, std::strerror(errno)));
  return file;
}

SharedBoard::SharedBoard(int file, int ranks, int local)
    : ranks_(ranks), local_(local), spins_(local <= usable_cores()), bytes_(bytes_of(ranks)) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  ::close(file);
  if (memory == MAP_FAILED)
    throw RunError(fmt::format("cannot map the ranks' shared memory: {}", std::strerror(error)));
  memory_ = static_cast<std::byte*>(memory);
}

SharedBoard::~SharedBoard() {
  ::munmap(memory_, bytes_);
}

// A new memfd is all zeros, which is the initial state.
SharedBoard::Header& SharedBoard::header() const {
  return *reinterpret_cast<Header*>(memory_);
}

// The last to arrive opens the next phase. Its release, and the acquire of ranks that see the new phase, make
// writes from before the barrier visible after it.
bool SharedBoard::barrier() {
  Header& h = header();
  const uint32_t phase = h.phase.load(std::memory_order_acquire);
  if (h.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(local_)) {
    h.arrived.store(0, std::memory_order_relaxed);
    h.phase.store(phase + 1, std::memory_order_release);
    wake_all(h.phase);
    return true;
  }
  constexpr int kSpins = 2000;
  for (int i = 0; spins_ && i < kSpins; ++i) {
    if (h.phase.load(std::memory_order_acquire) != phase) return true;
    pause_briefly();
  }
  while (h.phase.load(std::memory_order_acquire) == phase) {
    // A rank that failed after the barrier was complete does not make it fail.
    if (failed()) return h.phase.load(std::memory_order_acquire) != phase;
    sleep_while(h.phase, phase);
  }
  return true;
}

void SharedBoard::fail() {
  header().failed.store(1, std::memory_order_release);
  wake_all(header().phase);
}

bool SharedBoard::failed() const {
  return header().failed.load(std::memory_order_acquire) != 0;
}

std::span<std::byte> SharedBoard::slot(int rank) const {
  return {memory_ + kHeaderBytes + static_cast<size_t>(rank) * kSlotBytes, kSlotBytes};
}

std::span<std::byte> SharedBoard::result() const {
  return slot(ranks_);
}

uint32_t& SharedBoard::word(int set, int rank) const {
  return header().words[set][rank];
}

}  // namespace hydrac::runtime
