// Counts the words of a text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::prepare {

// A map from words to counts that keeps the words' bytes itself.
class WordCounts {
 public:
  void add(std::string_view word, int64_t count = 1);
  void add(const WordCounts& other);

  size_t size() const { return used_; }
  // Calls visit(std::string_view word, int64_t count) for each word, in no particular order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.count != 0) visit(text_of(slot), slot.count);
    }
  }

 private:
  struct Slot {
    uint64_t hash;
    uint64_t begin;  // in text_
    uint64_t size;
    int64_t count;  // 0: an empty slot
  };
  std::string_view text_of(const Slot& slot) const {
    return std::string_view(text_).substr(slot.begin, slot.size);
  }
  void add(std::string_view word, uint64_t hash, int64_t count);
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::string text_;
  size_t used_ = 0;
};

}  // namespace hydrac::prepare
