#include "runtime/cuda/exchange/exchange_schedule.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "runtime/cuda/memory.h"
#include "runtime/parallel/owned_slots.h"

namespace hydrac::runtime::cuda {

namespace {

// Up to so many bytes each rank adds up all of a sum, which needs one meeting of the ranks less.
constexpr std::int64_t kSmallSum = 64 << 10;
constexpr std::int64_t kMostBuffer = std::int64_t{128} << 20;

// The addends of a sum: elements at `from` in every rank's arena, and the place of their sum.
struct Addends {
  std::int64_t from = 0, to = 0, count = 0;
  ElementType type = ElementType::f32;
};

// The i-th peer of a rank, from 0.
int peer_of(Member member, int i) {
  return (member.rank + 1 + i) % member.size;
}

ExchangePiece new_piece(Member member) {
  ExchangePiece piece;
  for (int i = 0; i + 1 < member.size; ++i) piece.from_peers.push_back({peer_of(member, i), {}});
  return piece;
}

ExchangePhase phase_of_copies(Member member) {
  ExchangePhase phase;
  phase.pieces.push_back(new_piece(member));
  return phase;
}

// Copies from `peer`, which may be the rank itself.
void add_copy(ExchangePhase& phase, int peer, const ExchangeCopy& copy) {
  for (PeerCopies& from : phase.pieces.front().from_peers) {
    if (from.peer == peer) return from.copies.push_back(copy);
  }
  phase.own.push_back(copy);
}

// Divides sums into pieces whose copies fit the buffer.
class Pieces {
 public:
  Pieces(Member member, ExchangeBuffer buffer, std::int64_t bytes) : member_(member), buffer_(buffer) {
    const std::int64_t room = buffer.bytes / (member.size - 1) / kAlignment * kAlignment;
    halves_ = bytes <= room ? 1 : 2;
    room_ = room / halves_ / kAlignment * kAlignment;
    if (room_ < kAlignment) throw std::logic_error("the buffer for sums over ranks is too small");
  }

  void add(const Addends& addends) {
    const std::int64_t element = element_bytes(addends.type);
    for (std::int64_t first = 0; first < addends.count;) {
      if (pieces_.empty() || used_ == room_) begin_piece();
      const std::int64_t count = std::min(addends.count - first, (room_ - used_) / element);
      add_to_piece({addends.from + first * element, addends.to + first * element, count, addends.type});
      first += count;
    }
  }

  std::vector<ExchangePiece> take() { return std::move(pieces_); }

 private:
  void begin_piece() {
    pieces_.push_back(new_piece(member_));
    used_ = 0;
  }

  void add_to_piece(const Addends& addends) {
    const auto half = static_cast<std::int64_t>(pieces_.size() - 1) % halves_;
    const std::int64_t bytes = addends.count * element_bytes(addends.type);
    ExchangeSum sum{std::vector<std::int64_t>(static_cast<std::size_t>(member_.size)), addends.to,
                    addends.count, addends.type};
    sum.terms[static_cast<std::size_t>(member_.rank)] = addends.from;
    std::int64_t place = buffer_.at + half * room_ * (member_.size - 1) + used_;
    for (PeerCopies& from : pieces_.back().from_peers) {
      from.copies.push_back({addends.from, place, bytes});
      sum.terms[static_cast<std::size_t>(from.peer)] = place;
      place += room_;
    }
    pieces_.back().sums.push_back(std::move(sum));
    used_ += aligned(bytes);
  }

  Member member_;
  ExchangeBuffer buffer_;
  std::int64_t halves_ = 1, room_ = 0;  // of a peer, in a half
  std::int64_t used_ = 0;
  std::vector<ExchangePiece> pieces_;
};

ExchangePhase phase_of_sums(Member member, const std::vector<Addends>& all, ExchangeBuffer buffer) {
  std::int64_t bytes = 0;
  for (const Addends& addends : all) bytes += aligned(addends.count * element_bytes(addends.type));
  Pieces pieces(member, buffer, bytes);
  for (const Addends& addends : all) pieces.add(addends);
  ExchangePhase phase;
  phase.pieces = pieces.take();
  if (phase.pieces.empty()) phase.pieces.push_back(new_piece(member));
  return phase;
}

// The part of a tensor that a rank adds up: equal parts of whole aligned stretches, the last ones shorter.
Addends part_of(const ArenaElements& tensor, Member member, int rank) {
  const std::int64_t element = element_bytes(tensor.type), stretch = kAlignment / element;
  const std::int64_t each =
      ((tensor.count + member.size - 1) / member.size + stretch - 1) / stretch * stretch;
  const std::int64_t first = std::min(tensor.count, rank * each), last = std::min(tensor.count, first + each);
  return {tensor.from + first * element, tensor.to + first * element, last - first, tensor.type};
}

bool is_small(std::span<const ArenaElements> tensors, Member member, ExchangeBuffer buffer) {
  std::int64_t bytes = 0;
  for (const ArenaElements& tensor : tensors) bytes += aligned(tensor.count * element_bytes(tensor.type));
  return bytes <= kSmallSum && bytes * (member.size - 1) <= buffer.bytes;
}

// Calls each(slot, owner) for all slots of a tensor.
template <class Each>
void for_each_slot(const ArenaElements& tensor, Member member, const Each& each) {
  const std::int64_t own = owned_slots(tensor.slots, member.size);
  for (std::int64_t slot = 0; slot < tensor.slots; ++slot) each(slot, static_cast<int>(slot / own));
}

// The place of a rank's part of a slot in its owner's tensor at `whole`.
std::int64_t part_in_whole(const ArenaElements& tensor, std::int64_t whole, Member member, std::int64_t slot,
                           int rank) {
  const std::int64_t own = owned_slots(tensor.slots, member.size);
  return whole + (slot % own * member.size + rank) * tensor.count * element_bytes(tensor.type);
}

ExchangeSchedule all_reduce(Member member, std::span<const ArenaElements> tensors, ExchangeBuffer buffer) {
  const bool small = is_small(tensors, member, buffer);
  std::vector<Addends> all;
  for (const ArenaElements& tensor : tensors) {
    const Addends part = small ? Addends{tensor.from, tensor.to, tensor.count, tensor.type}
                               : part_of(tensor, member, member.rank);
    if (part.count > 0) all.push_back(part);
  }
  ExchangePhase sums = phase_of_sums(member, all, buffer);
  sums.sums_last = small;
  if (small) return {sums};
  ExchangePhase gather = phase_of_copies(member);
  for (PeerCopies& from : gather.pieces.front().from_peers) {
    for (const ArenaElements& tensor : tensors) {
      const Addends part = part_of(tensor, member, from.peer);
      if (part.count > 0) from.copies.push_back({part.to, part.to, part.count * element_bytes(part.type)});
    }
  }
  return {sums, gather};
}

ExchangeSchedule reduce_scatter(Member member, std::span<const ArenaElements> tensors,
                                ExchangeBuffer buffer) {
  std::vector<Addends> all;
  for (const ArenaElements& tensor : tensors) {
    const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
    all.push_back({tensor.from + member.rank * bytes, tensor.to, tensor.count, tensor.type});
  }
  return {phase_of_sums(member, all, buffer)};
}

ExchangeSchedule all_gather(Member member, std::span<const ArenaElements> tensors) {
  ExchangePhase phase = phase_of_copies(member);
  for (int rank = 0; rank < member.size; ++rank) {
    for (const ArenaElements& tensor : tensors) {
      const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
      add_copy(phase, rank, {tensor.from, tensor.to + rank * bytes, bytes});
    }
  }
  return {phase};
}

ExchangeSchedule to_owners(Member member, std::span<const ArenaElements> tensors) {
  ExchangePhase phase = phase_of_copies(member);
  for (const ArenaElements& tensor : tensors) {
    const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
    for_each_slot(tensor, member, [&](std::int64_t slot, int owner) {
      if (owner != member.rank) return;
      for (int rank = 0; rank < member.size; ++rank)
        add_copy(phase, rank,
                 {tensor.from + slot * bytes, part_in_whole(tensor, tensor.to, member, slot, rank), bytes});
    });
  }
  return {phase};
}

ExchangeSchedule from_owners(Member member, std::span<const ArenaElements> tensors) {
  ExchangePhase phase = phase_of_copies(member);
  for (const ArenaElements& tensor : tensors) {
    const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
    for_each_slot(tensor, member, [&](std::int64_t slot, int owner) {
      add_copy(
          phase, owner,
          {part_in_whole(tensor, tensor.from, member, slot, member.rank), tensor.to + slot * bytes, bytes});
    });
  }
  return {phase};
}

}  // namespace

ExchangeSchedule schedule(const Collective& collective, Member member, std::span<const ArenaElements> tensors,
                          ExchangeBuffer buffer) {
  switch (collective.kind) {
    case Collective::all_reduce:
      return all_reduce(member, tensors, buffer);
    case Collective::reduce_scatter:
      return reduce_scatter(member, tensors, buffer);
    case Collective::all_gather:
      return all_gather(member, tensors);
    case Collective::to_owners:
      return to_owners(member, tensors);
    case Collective::from_owners:
      return from_owners(member, tensors);
    case Collective::own_part:
      break;
  }
  throw std::logic_error("a rank's own part is no exchange");
}

std::int64_t exchange_buffer_bytes(int ranks, std::int64_t bytes, std::int64_t tensors) {
  const std::int64_t small = std::min(bytes, kSmallSum) * (ranks - 1), parts = bytes / ranks * (ranks - 1);
  const std::int64_t padding = 2 * (tensors + 1) * kAlignment * ranks;
  return aligned(std::min(std::max(small, parts) + padding, kMostBuffer));
}

// All "ready" flags are set before anything waits, and all "done" flags before any of them is waited for. So
// ranks cannot deadlock, even if a GPU runs one queue after the other.
void carry_out(const ExchangeSchedule& schedule, Member member, ExchangeQueues& queues) {
  const int peers = member.size - 1;
  for (const ExchangePhase& phase : schedule) {
    for (int i = 0; i < peers; ++i) queues.tell(0, peer_of(member, i), ExchangeFlag::ready);
    const int start = queues.mark(0);
    for (int i = 0; i < peers; ++i) {
      queues.wait(i + 1, start);
      queues.await(i + 1, peer_of(member, i), ExchangeFlag::ready);
    }
    for (const ExchangeCopy& copy : phase.own) queues.copy(0, member.rank, copy);
    std::array<int, 2> added{};  // the ends of sums that read the two halves of the buffer
    const auto add = [&](const ExchangePiece& piece) {
      for (const ExchangeSum& sum : piece.sums) queues.sum(sum);
    };
    for (std::size_t p = 0; p < phase.pieces.size(); ++p) {
      const ExchangePiece& piece = phase.pieces[p];
      std::vector<int> copied;
      for (int i = 0; i < peers; ++i) {
        const PeerCopies& from = piece.from_peers[static_cast<std::size_t>(i)];
        if (p >= 2) queues.wait(i + 1, added[p % 2]);
        for (const ExchangeCopy& copy : from.copies) queues.copy(i + 1, from.peer, copy);
        if (p + 1 == phase.pieces.size()) queues.tell(i + 1, from.peer, ExchangeFlag::done);
        copied.push_back(queues.mark(i + 1));
      }
      for (const int mark : copied) queues.wait(0, mark);
      if (!phase.sums_last) add(piece);
      added[p % 2] = queues.mark(0);
    }
    for (int i = 0; i < peers; ++i) queues.await(0, peer_of(member, i), ExchangeFlag::done);
    if (phase.sums_last)
      for (const ExchangePiece& piece : phase.pieces) add(piece);
  }
}

}  // namespace hydrac::runtime::cuda
