// Exchanges between ranks. The memory of each host has a slot for every rank of the run. A rank writes its
// own slot, all meet at a barrier, and each reads what it needs of the others. So sums have the same bits
// wherever ranks are.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

namespace {

constexpr double kHearingOfALink = 10;  // seconds

// The part of `size` elements that the `i`-th of `members` adds up.
struct Part {
  size_t first, last;
};
Part part_of(size_t size, int i, int members) {
  const auto n = static_cast<size_t>(members), r = static_cast<size_t>(i);
  return {size * r / n, size * (r + 1) / n};
}

std::span<std::byte> floats_of(std::span<std::byte> bytes, size_t first, size_t count) {
  return bytes.subspan(first * sizeof(float), count * sizeof(float));
}

// Splits the bytes from `first` on at multiples of `size`, and calls each(block, offset within the block,
// bytes).
template <class Each>
void for_each_block(size_t first, std::span<const std::byte> bytes, size_t size, const Each& each) {
  while (!bytes.empty()) {
    const size_t offset = first % size, count = std::min(size - offset, bytes.size());
    each(first / size, offset, bytes.first(count));
    bytes = bytes.subspan(count);
    first += count;
  }
}

// Every rank takes a part of what each has.
bool by_all(int, int) {
  return true;
}

}  // namespace

int Ranks::place_in(RankGroup group, int rank) const {
  return group == RankGroup::tensor ? rank % layer_ranks_ : rank / layer_ranks_;
}

int Ranks::group_of(RankGroup group, int rank) const {
  return place_in(group == RankGroup::tensor ? RankGroup::data : RankGroup::tensor, rank);
}

int Ranks::member(RankGroup group, int i) const {
  const int place = rank(RankGroup::tensor);
  return group == RankGroup::tensor ? rank() - place + i : i * layer_ranks_ + place;
}

void Ranks::meet_here() {
  const Waiting waiting(*this);
  if (!board_->barrier()) throw_failure();
}

// Between the two barriers no rank of this host reads or writes, so the first one may fill the slots of ranks
// on other hosts.
void Ranks::meet(const Reads& reads) {
  meet_here();
  if (roster_.hosts.empty()) return;
  if (links_) {
    const auto with = [&](int other) -> HostLinks::Exchange {
      const Host& host = roster_.hosts[static_cast<size_t>(other)];
      return {crossing(own_host(), host, reads), crossing(host, own_host(), reads)};
    };
    const Waiting waiting(*this);
    bool is_done = false;
    try {
      is_done = links_->exchange(with, [this] { return board_->failed(); });
    } catch (const RunError& error) {
      board_->fail();
      // Or what rank 0 says, who may know more. Before the others of this host, who know nothing, give up.
      throw_failure(error.what(), kHearingOfALink);
    }
    if (!is_done) throw_failure();
  }
  meet_here();
}

// The places that ranks of `to` read from ranks of `from`, overlapping ones merged: each byte is sent once,
// however many ranks read it.
HostLinks::Places Ranks::crossing(const Host& from, const Host& to, const Reads& reads) const {
  HostLinks::Places all;
  for (const int writer : from.ranks) {
    HostLinks::Places places;
    for (const int reader : to.ranks)
      if (const std::span<std::byte> place = reads(writer, reader); !place.empty()) places.push_back(place);
    std::ranges::sort(places, {}, [](std::span<std::byte> place) { return place.data(); });
    const size_t first = all.size();
    for (const std::span<std::byte> place : places) {
      if (all.size() == first || place.data() > all.back().data() + all.back().size()) {
        all.push_back(place);
        continue;
      }
      std::byte* const end = std::max(all.back().data() + all.back().size(), place.data() + place.size());
      all.back() = {all.back().data(), end};
    }
  }
  return all;
}

void Ranks::put(std::span<std::byte> place, const std::string& text) const {
  const uint64_t bytes = text.size();
  if (bytes + sizeof bytes > place.size())
    throw std::logic_error(fmt::format("ranks cannot exchange {} bytes of text", bytes));
  std::memcpy(place.data(), &bytes, sizeof bytes);
  std::memcpy(place.data() + sizeof bytes, text.data(), bytes);
}

std::string Ranks::get(std::span<const std::byte> place) const {
  uint64_t bytes = 0;
  std::memcpy(&bytes, place.data(), sizeof bytes);
  if (bytes > place.size() - sizeof bytes) throw RunError("a text between ranks is damaged");
  return {reinterpret_cast<const char*>(place.data()) + sizeof bytes, static_cast<size_t>(bytes)};
}

std::span<std::byte> Ranks::word_bytes(int rank) const {
  return std::as_writable_bytes(std::span(&board_->word(set_, rank), 1));
}

// The text that put() wrote there, with the length from the rank's word.
std::span<std::byte> Ranks::text_bytes(int rank) const {
  const std::span<std::byte> slot = board_->slot(rank);
  const size_t bytes = board_->word(set_, rank);
  if (bytes > slot.size()) throw RunError("a text between ranks is damaged");
  return slot.first(bytes);
}

// After put() into the slots of the ranks that write: makes their texts readable. Between hosts their lengths
// are sent first.
void Ranks::meet_for_texts(const std::function<bool(int from)>& writes) {
  if (roster_.hosts.empty()) return meet_here();
  if (writes(rank())) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, board_->slot(rank()).data(), sizeof bytes);
    board_->word(set_, rank()) = static_cast<uint32_t>(bytes + sizeof bytes);
  }
  meet([&](int from, int) { return writes(from) ? word_bytes(from) : std::span<std::byte>(); });
  meet([&](int from, int) { return writes(from) ? text_bytes(from) : std::span<std::byte>(); });
  set_ = 1 - set_;
}

std::string Ranks::share(const std::string& text) {
  if (leads()) put(board_->slot(0), text);  // not where others may still read a sum
  meet_for_texts([](int from) { return from == 0; });
  std::string shared = get(board_->slot(0));
  meet_here();
  return shared;
}

std::vector<std::string> Ranks::gather(const std::string& text) {
  put(board_->slot(rank()), text);
  meet_for_texts([](int) { return true; });
  std::vector<std::string> all;
  for (int r = 0; r < size(); ++r) all.push_back(get(board_->slot(r)));
  meet_here();
  return all;
}

bool Ranks::any(bool flag) {
  board_->word(set_, rank()) = flag ? 1 : 0;
  meet([&](int from, int) { return word_bytes(from); });
  bool found = false;
  for (int r = 0; r < size(); ++r) found |= board_->word(set_, r) != 0;
  set_ = 1 - set_;
  return found;
}

void Ranks::run(const Collective& collective, const SharedFloats& tensor) {
  if (collective.reduction != Reduction::sum)
    throw std::logic_error("ranks on the cpu find no largest number");
  const RankGroup group = collective.group;
  const auto count = static_cast<size_t>(tensor.count), parts = count * static_cast<size_t>(tensor.slots),
             whole = count * static_cast<size_t>(size(group)),
             owned = whole * static_cast<size_t>(owned_slots(tensor.slots, size(group)));
  switch (collective.kind) {
    case Collective::all_reduce:
      return all_reduce({tensor.from, count}, {tensor.to, count}, group);
    case Collective::reduce_scatter:
      return reduce_scatter({tensor.from, whole}, {tensor.to, count}, group);
    case Collective::all_gather:
      return all_gather({tensor.from, count}, {tensor.to, whole}, group);
    case Collective::own_part:
      std::copy_n(tensor.from + rank(group) * tensor.count, tensor.count, tensor.to);
      return;
    case Collective::to_owners:
      return to_owners({tensor.from, parts}, {tensor.to, owned}, tensor.slots);
    case Collective::from_owners:
      return from_owners({tensor.from, owned}, {tensor.to, parts}, tensor.slots);
  }
}

void Ranks::all_reduce(std::span<const float> from, std::span<float> to, RankGroup group) {
  const double began = monotonic_seconds();
  const auto groups = static_cast<size_t>(size() / size(group));
  const size_t piece = SharedBoard::kSlotBytes / sizeof(float) / groups;
  for (size_t first = 0; first < from.size(); first += piece) {
    const size_t count = std::min(piece, from.size() - first);
    reduce(from.subspan(first, count), to.subspan(first, count), group);
  }
  seconds_ += monotonic_seconds() - began;
}

// One piece: each rank of a group adds up its part of it. Groups have equal parts of the result.
void Ranks::reduce(std::span<const float> from, std::span<float> to, RankGroup group) {
  const size_t count = from.size();
  const auto part = [&](int of) { return part_of(count, place_in(group, of), size(group)); };
  const auto is_same_group = [&](int a, int b) { return group_of(group, a) == group_of(group, b); };
  std::memcpy(board_->slot(rank()).data(), from.data(), from.size_bytes());
  meet([&](int of, int reader) -> std::span<std::byte> {
    if (!is_same_group(of, reader)) return {};
    return floats_of(board_->slot(of), part(reader).first, part(reader).last - part(reader).first);
  });
  const Part own = part(rank());
  const auto result = [&](int of) { return static_cast<size_t>(group_of(group, of)) * count; };
  auto* sum = reinterpret_cast<float*>(board_->result().data()) + result(rank());
  std::fill(sum + own.first, sum + own.last, 0.0f);
  for (int i = 0; i < size(group); ++i) {
    const auto* term = reinterpret_cast<const float*>(board_->slot(member(group, i)).data());
    for (size_t e = own.first; e < own.last; ++e) sum[e] += term[e];
  }
  meet([&](int of, int reader) -> std::span<std::byte> {
    if (!is_same_group(of, reader)) return {};
    return floats_of(board_->result(), result(of) + part(of).first, part(of).last - part(of).first);
  });
  std::memcpy(to.data(), sum, to.size_bytes());
}

void Ranks::reduce_scatter(std::span<const float> whole, std::span<float> part, RankGroup group) {
  const double began = monotonic_seconds();
  const auto n = static_cast<size_t>(size(group)), r = static_cast<size_t>(rank(group));
  const size_t piece = SharedBoard::kSlotBytes / sizeof(float) / n;  // of each part
  for (size_t first = 0; first < part.size(); first += piece) {
    const size_t count = std::min(piece, part.size() - first);
    auto* own = reinterpret_cast<float*>(board_->slot(rank()).data());
    for (size_t of = 0; of < n; ++of)
      std::memcpy(own + of * count, whole.data() + of * part.size() + first, count * sizeof(float));
    meet([&](int of, int reader) -> std::span<std::byte> {
      if (group_of(group, of) != group_of(group, reader)) return {};
      return floats_of(board_->slot(of), static_cast<size_t>(place_in(group, reader)) * count, count);
    });
    const std::span<float> sum = part.subspan(first, count);
    std::ranges::fill(sum, 0.0f);
    for (int i = 0; i < size(group); ++i) {
      const auto* term = reinterpret_cast<const float*>(board_->slot(member(group, i)).data()) + r * count;
      for (size_t e = 0; e < count; ++e) sum[e] += term[e];
    }
    meet_here();
  }
  seconds_ += monotonic_seconds() - began;
}

void Ranks::all_gather(std::span<const float> part, std::span<float> whole, RankGroup group) {
  const double began = monotonic_seconds();
  const auto is_read = [&](int from, int to) { return group_of(group, from) == group_of(group, to); };
  const auto take = [&](int from, size_t first, std::span<const std::byte> bytes) {
    const auto i = static_cast<size_t>(place_in(group, from));
    std::memcpy(reinterpret_cast<std::byte*>(whole.data()) + i * part.size_bytes() + first, bytes.data(),
                bytes.size());
  };
  exchange(std::as_bytes(part), take, is_read);
  seconds_ += monotonic_seconds() - began;
}

void Ranks::to_owners(std::span<const float> parts, std::span<float> whole, int64_t slots) {
  const double began = monotonic_seconds();
  const size_t n = static_cast<size_t>(size()), part = parts.size_bytes() / static_cast<size_t>(slots);
  const auto own = static_cast<size_t>(owned_slots(slots, size())),
             first_own = own * static_cast<size_t>(rank());
  const std::span<std::byte> to = std::as_writable_bytes(whole);
  std::ranges::fill(whole, 0.0f);
  const auto take = [&](int from, size_t first, std::span<const std::byte> bytes) {
    for_each_block(first, bytes, part, [&](size_t slot, size_t offset, std::span<const std::byte> piece) {
      if (slot < first_own || slot >= first_own + own) return;
      const size_t block = (slot - first_own) * n + static_cast<size_t>(from);
      std::memcpy(&to[block * part + offset], piece.data(), piece.size());
    });
  };
  exchange(std::as_bytes(parts), take, by_all);
  seconds_ += monotonic_seconds() - began;
}

void Ranks::from_owners(std::span<const float> whole, std::span<float> parts, int64_t slots) {
  const double began = monotonic_seconds();
  const size_t n = static_cast<size_t>(size()), part = parts.size_bytes() / static_cast<size_t>(slots);
  const auto own = static_cast<size_t>(owned_slots(slots, size()));
  const std::span<std::byte> to = std::as_writable_bytes(parts);
  const auto take = [&](int from, size_t first, std::span<const std::byte> bytes) {
    for_each_block(first, bytes, part, [&](size_t block, size_t offset, std::span<const std::byte> piece) {
      const size_t slot = static_cast<size_t>(from) * own + block / n;
      if (block % n != static_cast<size_t>(rank()) || slot >= static_cast<size_t>(slots)) return;
      std::memcpy(&to[slot * part + offset], piece.data(), piece.size());
    });
  };
  exchange(std::as_bytes(whole), take, by_all);
  seconds_ += monotonic_seconds() - began;
}

void Ranks::collect(std::span<const std::byte> own, const Take& take) {
  exchange(own, take, [](int, int to) { return to == 0; });
}

// `reads(from, to)`: whether rank `to` takes what rank `from` has.
void Ranks::exchange(std::span<const std::byte> own, const Take& take,
                     const std::function<bool(int from, int to)>& reads) {
  constexpr size_t piece = SharedBoard::kSlotBytes;
  for (size_t first = 0; first < own.size(); first += piece) {
    const size_t count = std::min(piece, own.size() - first);
    std::memcpy(board_->slot(rank()).data(), own.data() + first, count);
    meet([&](int from, int to) {
      return reads(from, to) ? board_->slot(from).first(count) : std::span<std::byte>();
    });
    for (int other = 0; other < size(); ++other)
      if (reads(other, rank())) take(other, first, board_->slot(other).first(count));
    meet_here();
  }
}

}  // namespace hydrac::runtime
