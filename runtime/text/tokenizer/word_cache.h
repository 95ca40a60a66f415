// Remembers the ids of short pieces of text: most of a corpus is a few thousand words.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

// A bounded map from words to ids that forgets everything when it is full. For one thread.
class WordCache {
 public:
  WordCache();
  static bool takes(std::string_view word) { return word.size() <= kMaxWord; }

  // The ids of `word`, valid until the next insert(); nothing when it is not known.
  std::optional<std::span<const int32_t>> find(std::string_view word) const;
  // `word` must be one that takes() accepts and find() does not know.
  void insert(std::string_view word, std::span<const int32_t> ids);

 private:
  static constexpr size_t kMaxWord = 48;             // bytes
  static constexpr size_t kSlots = size_t{1} << 17;  // at most half full
  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0;  // begin in text_
    uint32_t ids = 0;   // begin in ids_
    uint16_t text_size = 0;
    uint16_t ids_size = 0;  // 0: an empty slot
  };
  size_t slot_of(std::string_view word, uint64_t hash) const;

  std::vector<Slot> slots_;
  std::string text_;
  std::vector<int32_t> ids_;
  size_t used_ = 0;
};

}  // namespace hydrac::runtime
