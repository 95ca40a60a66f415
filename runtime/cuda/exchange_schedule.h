// What a rank does where the ranks of one host exchange numbers by copies between their GPUs: which bytes it
// copies from whom, what it adds up, and who waits for whom, as data. Every rank's arena has one layout, so
// an offset names the same tensor in all of them. What is here knows no GPU: ExchangeQueues carries it out.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/gemm.h"
#include "runtime/parallel/collective.h"

namespace hydrac::runtime::cuda {

// A rank among those that exchange.
struct Member {
  int rank = 0, size = 1;
};

// Elements (communicator.h), by offsets in the arena.
struct ArenaElements {
  std::int64_t from = 0, to = 0;
  std::int64_t count = 0;
  ElementType type = ElementType::f32;
  std::int64_t slots = 1;
};

// Where copies of other ranks' numbers wait until they are added up: a part of the arena, a multiple of
// kAlignment.
struct ExchangeBuffer {
  std::int64_t at = 0, bytes = 0;
};

// Of `bytes` bytes from offset `from` of a rank's arena to offset `to` of this rank's.
struct ExchangeCopy {
  std::int64_t from = 0, to = 0, bytes = 0;
};

// All offsets are in this rank's arena. The terms are in the order of ranks.
struct ExchangeSum {
  std::vector<std::int64_t> terms;
  std::int64_t to = 0, count = 0;
  ElementType type = ElementType::f32;
};

struct PeerCopies {
  int peer = 0;
  std::vector<ExchangeCopy> copies;
};

// What fits the buffer at once: copies from each peer, and what is then added up. Each rank copies first from
// the rank that follows it, so that no two begin with the same one.
struct ExchangePiece {
  std::vector<PeerCopies> from_peers;
  std::vector<ExchangeSum> sums;
};

// Begins when all ranks have come to it, and ends when all have taken what they copy from others.
struct ExchangePhase {
  std::vector<ExchangePiece> pieces;  // where they are several, in the two halves of the buffer alternately
  std::vector<ExchangeCopy> own;      // within this rank's arena
  bool sums_last = false;             // sums are written where peers read, so these must have read
};

// Of the arena, in front of the buffer: words by which ranks wait for each other.
inline constexpr std::int64_t kExchangeFlagBytes = 256;

using ExchangeSchedule = std::vector<ExchangePhase>;

// What a rank does for a collective; tensors to reduce are f32, bf16 or f16. What to_owners has beyond the
// last slot stays. std::logic_error: own_part, which exchanges nothing.
ExchangeSchedule schedule(const Collective& collective, Member member, std::span<const ArenaElements> tensors,
                          ExchangeBuffer buffer);

// The size of a buffer for sums of tensors that have so many bytes in all: it holds them in one piece, or,
// where that would be more than 128 MiB, two halves that are used alternately.
std::int64_t exchange_buffer_bytes(int ranks, std::int64_t bytes, std::int64_t tensors);

// Words of a rank's memory by which peers tell it that they have come, and that they have taken what they
// needed.
enum class ExchangeFlag { ready, done };

// Carries out a schedule: queue 0 is the caller's, queue i that of copies from the i-th peer. What is put on
// one queue happens in order.
class ExchangeQueues {
 public:
  virtual ~ExchangeQueues() = default;
  // Sets this rank's flag in the peer's memory, after all that the queue was given before.
  virtual void tell(int queue, int peer, ExchangeFlag flag) = 0;
  // The queue goes on when the peer has set its flag here, and clears it.
  virtual void await(int queue, int peer, ExchangeFlag flag) = 0;
  // Copies from the peer's arena, or within this rank's own (`peer` is this rank).
  virtual void copy(int queue, int peer, const ExchangeCopy& copy) = 0;
  virtual void sum(const ExchangeSum& sum) = 0;  // on queue 0
  // The place that a queue has come to, and: `queue` goes on when that place has been reached.
  virtual int mark(int queue) = 0;
  virtual void wait(int queue, int mark) = 0;
};

// Puts the schedule on the queues. It starts after all earlier work of queue 0, and later work of queue 0
// starts after it.
void carry_out(const ExchangeSchedule& schedule, Member member, ExchangeQueues& queues);

}  // namespace hydrac::runtime::cuda
