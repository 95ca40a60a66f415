// Texts that were seen before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/data/hash.h"

namespace hydrac::prepare {

// 128 bits: of 10^10 different texts no two have the same, but for a chance of 10^-19.
struct TextKey {
  uint64_t low = 0, high = 0;
  bool operator==(const TextKey&) const = default;
};

inline TextKey key_of(std::string_view text) {
  return {runtime::Hash64().add(text).value(), runtime::Hash64().add(1).add(text).value() | 1};
}

// A set of keys; open addressing, 16 bytes a slot.
class SeenTexts {
 public:
  // True if it is new.
  bool insert(TextKey key) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    TextKey& slot = slots_[place_of(key)];
    if (slot == key) return false;
    slot = key;
    ++used_;
    return true;
  }

 private:
  static constexpr TextKey kEmpty{};  // no key: their `high` is odd
  size_t place_of(TextKey key) const {
    size_t at = key.low & (slots_.size() - 1);
    while (slots_[at] != kEmpty && slots_[at] != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    const std::vector<TextKey> old = std::move(slots_);
    slots_.assign(old.empty() ? size_t{1} << 12 : 2 * old.size(), kEmpty);
    for (const TextKey& key : old) {
      if (key != kEmpty) slots_[place_of(key)] = key;
    }
  }

  std::vector<TextKey> slots_;  // a power of two, at most half full
  size_t used_ = 0;
};

}  // namespace hydrac::prepare
