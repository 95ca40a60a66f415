// Conversations and other training items as marked tokens: one row of ids, each of which says whether it is
// learned and whether an item begins with it. An item is a text, or a pair: the chosen one, then the
// rejected.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hydrac::runtime {

// A token's 32 bits: its id, and three marks above it.
struct MarkedToken {
  static constexpr uint32_t kIsContext = uint32_t{1} << 31;   // no target: what the model reads, not says
  static constexpr uint32_t kBegins = uint32_t{1} << 30;      // the first token of an item
  static constexpr uint32_t kIsRejected = uint32_t{1} << 29;  // of a pair's rejected text
  static constexpr uint32_t kIdBits = kIsRejected - 1;

  uint32_t bits = 0;

  int32_t id() const { return static_cast<int32_t>(bits & kIdBits); }
  bool is_context() const { return (bits & kIsContext) != 0; }
  bool begins() const { return (bits & kBegins) != 0; }
  bool is_rejected() const { return (bits & kIsRejected) != 0; }
};

class ItemStore {
 public:
  // `owner` keeps `tokens` alive, which begin with an item. InputError, in the name `shown_as`, for none, and
  // for an id outside the vocabulary.
  ItemStore(std::shared_ptr<const void> owner, std::span<const MarkedToken> tokens, int64_t vocab_size,
            const std::string& shown_as);

  int64_t size() const { return static_cast<int64_t>(begins_.size()) - 1; }
  std::span<const MarkedToken> item(int64_t index) const;  // never empty
  std::span<const MarkedToken> tokens() const { return tokens_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const MarkedToken> tokens_;
  std::vector<int64_t> begins_;  // of each item, and the end of the last
};

}  // namespace hydrac::runtime
