#include "runtime/text/tokenizer/word_cache.h"

#include <algorithm>

#include "runtime/data/hash.h"

namespace hydrac::runtime {

namespace {

uint64_t hash_of(std::string_view word) {
  return Hash64().add(word).value();
}

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

size_t WordCache::slot_of(std::string_view word, uint64_t hash) const {
  size_t at = hash & (kSlots - 1);
  for (;; at = (at + 1) & (kSlots - 1)) {
    const Slot& slot = slots_[at];
    if (slot.ids_size == 0) return at;
    if (slot.hash == hash && std::string_view(text_).substr(slot.text, slot.text_size) == word) return at;
  }
}

std::optional<std::span<const int32_t>> WordCache::find(std::string_view word) const {
  const Slot& slot = slots_[slot_of(word, hash_of(word))];
  if (slot.ids_size == 0) return std::nullopt;
  return std::span<const int32_t>(ids_).subspan(slot.ids, slot.ids_size);
}

void WordCache::insert(std::string_view word, std::span<const int32_t> ids) {
  if (2 * (used_ + 1) > kSlots) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    text_.clear();
    ids_.clear();
    used_ = 0;
  }
  const uint64_t hash = hash_of(word);
  slots_[slot_of(word, hash)] = {hash, static_cast<uint32_t>(text_.size()),
                                 static_cast<uint32_t>(ids_.size()), static_cast<uint16_t>(word.size()),
                                 static_cast<uint16_t>(ids.size())};
  text_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

}  // namespace hydrac::runtime
