#include "prepare/word_counts.h"

#include <utility>

#include "runtime/data/hash.h"

namespace hydrac::prepare {

void WordCounts::add(std::string_view word, int64_t count) {
  add(word, runtime::Hash64().add(word).value(), count);
}

void WordCounts::add(const WordCounts& other) {
  for (const Slot& slot : other.slots_) {
    if (slot.count != 0) add(other.text_of(slot), slot.hash, slot.count);
  }
}

void WordCounts::add(std::string_view word, uint64_t hash, int64_t count) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.count == 0) {
      slot = {hash, text_.size(), word.size(), count};
      text_ += word;
      ++used_;
      return;
    }
    if (slot.hash == hash && text_of(slot) == word) {
      slot.count += count;
      return;
    }
  }
}

void WordCounts::grow() {
  constexpr size_t kSmallest = size_t{1} << 12;
  std::vector<Slot> old = std::exchange(slots_, {});
  slots_.assign(old.empty() ? kSmallest : 2 * old.size(), Slot{});
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].count != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace hydrac::prepare
