// Memory that the ranks of one host share: a barrier, a slot for each rank of the run, and one for a result.
// With several hosts each has such memory, with the same layout.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hydrac::runtime {

class SharedBoard {
 public:
  static constexpr int64_t kSlotBytes = 1 << 20;  // stays in the processor's caches

  // A file of memory without a name, so that nothing is left of it however the ranks end. RunError.
  static int create(int ranks);
  // Maps it; closes `file`. `local`: of the `ranks` those of this host, which meet at the barrier. RunError.
  SharedBoard(int file, int ranks, int local);
  ~SharedBoard();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  // True when every rank of this host has called it; false once fail() was called by one that has not.
  [[nodiscard]] bool barrier();
  void fail();
  bool failed() const;

  // Written by its rank alone, between two barriers.
  std::span<std::byte> slot(int rank) const;
  std::span<std::byte> result() const;
  // A word for each rank, in two sets that calls use in turn: one barrier a call suffices.
  uint32_t& word(int set, int rank) const;

 private:
  struct Header;
  Header& header() const;

  int ranks_, local_;
  bool spins_;  // before it sleeps: every rank has a core
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hydrac::runtime
