#include "runtime/text/tokenizer/bpe_merges.h"

#include <algorithm>
#include <bit>

#include "runtime/data/hash.h"

namespace hydrac::runtime {

MergeTable::MergeTable(size_t expected)
    : slots_(std::bit_ceil(2 * std::max<size_t>(expected, 8)), Slot{kEmpty, {0, 0}}) {}

uint64_t MergeTable::key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// The slot that holds `key`, or the empty one where it belongs.
size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = mix64(key) & mask;
  while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == kEmpty) ++used_;
  slot = {key, merge};
  if (2 * used_ <= slots_.size()) return;
  std::vector<Slot> old(2 * slots_.size(), Slot{kEmpty, {0, 0}});
  old.swap(slots_);
  for (const Slot& s : old) {
    if (s.key != kEmpty) slots_[slot_of(s.key)] = s;
  }
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
  const Slot& slot = slots_[slot_of(key_of(left, right))];
  return slot.key == kEmpty ? nullptr : &slot.merge;
}

namespace {

using Symbol = MergeScratch::Symbol;
using Candidate = MergeScratch::Candidate;

// The heap's front is the candidate to take first.
bool goes_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

void offer(const MergeTable& table, MergeScratch& scratch, int32_t at) {
  const Symbol& left = scratch.symbols[static_cast<size_t>(at)];
  const Symbol& right = scratch.symbols[static_cast<size_t>(left.next)];
  if (const auto* merge = table.find(left.id, right.id)) {
    scratch.heap.push_back({merge->rank, at, merge->result});
    std::push_heap(scratch.heap.begin(), scratch.heap.end(), goes_later);
  }
}

// A candidate is stale when one of its symbols was joined to another since.
bool still_holds(const MergeTable& table, const std::vector<Symbol>& symbols, const Candidate& candidate) {
  const Symbol& left = symbols[static_cast<size_t>(candidate.at)];
  if (left.id < 0 || left.next < 0) return false;
  const auto* merge = table.find(left.id, symbols[static_cast<size_t>(left.next)].id);
  return merge != nullptr && merge->result == candidate.result;
}

}  // namespace

void merge_ids(const MergeTable& table, std::vector<int32_t>& ids, MergeScratch& scratch) {
  const auto count = static_cast<int32_t>(ids.size());
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({ids[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  for (int32_t i = 0; i + 1 < count; ++i) offer(table, scratch, i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), goes_later);
    const Candidate best = heap.back();
    heap.pop_back();
    if (!still_holds(table, symbols, best)) continue;
    Symbol& left = symbols[static_cast<size_t>(best.at)];
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = best.result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].prev = best.at;
    if (left.prev >= 0) offer(table, scratch, left.prev);
    if (left.next >= 0) offer(table, scratch, best.at);
  }
  ids.clear();
  for (int32_t at = 0; at >= 0 && count > 0; at = symbols[static_cast<size_t>(at)].next) {
    ids.push_back(symbols[static_cast<size_t>(at)].id);
  }
}

}  // namespace hydrac::runtime
