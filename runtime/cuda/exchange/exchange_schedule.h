// The schedule of an exchange by copies between the GPUs of one host, as data: which bytes a rank copies from
// whom, what it adds up, and which waits order this. Every rank's arena has the same layout, so an offset
// names the same tensor in all of them. This code does not touch a GPU: ExchangeQueues carries schedules out.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/gemm/gemm.h"
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

// Memory for other ranks' data until it is added up: a part of the arena, a multiple of kAlignment.
struct ExchangeBuffer {
  std::int64_t at = 0, bytes = 0;
};

// A copy of `bytes` bytes from offset `from` of a rank's arena to offset `to` of this rank's.
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

// One round that fits the buffer: copies from each peer, then the sums. Each rank copies first from the rank
// after it, so that no two start with the same one.
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

// The part of the arena before the buffer: flags by which ranks wait for each other.
inline constexpr std::int64_t kExchangeFlagBytes = 256;

using ExchangeSchedule = std::vector<ExchangePhase>;

// A rank's work for a collective; tensors to reduce are f32, bf16 or f16. to_owners leaves memory beyond the
// last slot as it is. std::logic_error: own_part, which exchanges nothing.
ExchangeSchedule schedule(const Collective& collective, Member member, std::span<const ArenaElements> tensors,
                          ExchangeBuffer buffer);

// The size of a buffer for sums of tensors with so many bytes in all. It holds them at once or, if that
// exceeds 128 MiB, has two halves that are used alternately.
std::int64_t exchange_buffer_bytes(int ranks, std::int64_t bytes, std::int64_t tensors);

// Flags in a rank's memory that peers set: the peer has arrived, or the peer has read what it needs.
enum class ExchangeFlag { ready, done };

// Carries out a schedule: queue 0 is the caller's, queue i that of copies from the i-th peer. Work on one
// queue runs in order.
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
