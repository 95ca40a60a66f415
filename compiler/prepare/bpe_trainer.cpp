#include "prepare/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "prepare/byte_letters.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"

namespace hydrac::prepare {

namespace {

// From pairs of ids to 0, 1, 2, ... in the order in which they were first asked for; open addressing.
class PairIndex {
 public:
  // The index of the pair; `count_` grows where it is new.
  uint32_t of(int32_t left, int32_t right) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    size_t at = runtime::mix64(key) & (slots_.size() - 1);
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].key == kEmpty) slots_[at] = {key, static_cast<uint32_t>(count_++)};
    return slots_[at].index;
  }
  size_t size() const { return count_; }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // ids are not negative
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t index = 0;
  };
  void grow() {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? size_t{1} << 16 : 2 * old.size(), Slot{});
    for (const Slot& slot : old) {
      if (slot.key == kEmpty) continue;
      size_t at = runtime::mix64(slot.key) & (slots_.size() - 1);
      while (slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t count_ = 0;
};

// All words lie in one array, a place a byte, with an empty place before, between and after them. A token
// lies at the place of its first byte. Merging a pair takes as many steps as it has occurrences, whatever the
// words look like.
class Trainer {
 public:
  explicit Trainer(const WordCounts& words) {
    for (const std::string& letter : byte_letters()) learned_.tokens.push_back(letter);
    for (size_t id = 0; id < learned_.tokens.size(); ++id) {
      id_of_byte_[static_cast<unsigned char>(learned_.tokens[id][0])] = static_cast<int32_t>(id);
      ids_by_bytes_.emplace(learned_.tokens[id], static_cast<int32_t>(id));
    }
    lay_out(words);
    for (uint32_t at = 1; at < ids_.size(); ++at) {
      if (ids_[at - 1] != kNoWord && ids_[at] != kNoWord) add(ids_[at - 1], ids_[at], at - 1);
    }
    for (uint32_t pair = 0; pair < pairs_.size(); ++pair) push(pair);
    touched_.clear();
  }

  LearnedMerges run(int64_t num_tokens, const std::function<void(int64_t)>& progress) {
    constexpr int64_t kLeast = 2;  // a pair that occurs once is no regularity
    while (static_cast<int64_t>(learned_.tokens.size()) < num_tokens && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const Pair& pair = pairs_[best.pair];
      if (pair.merged) continue;
      if (pair.count != best.count) {  // it has lost occurrences to other merges
        if (pair.count >= kLeast) push(best.pair);
        continue;
      }
      if (best.count < kLeast) break;
      merge(best.pair);
      if (progress && learned_.merges.size() % 256 == 0)
        progress(static_cast<int64_t>(learned_.tokens.size()));
    }
    return std::move(learned_);
  }

 private:
  static constexpr int32_t kNoWord = -1, kInside = -2;  // in ids_: between words, within a token
  struct Pair {
    int32_t left, right;
    int64_t count = 0;
    std::vector<uint32_t> places;  // of the left token; some are outdated
    bool merged = false;
    bool touched = false;  // in touched_
  };
  struct Candidate {
    int64_t count;
    int32_t left, right;
    uint32_t pair;
    // True if `other` goes first.
    bool operator<(const Candidate& other) const {
      if (count != other.count) return count < other.count;
      return std::pair(left, right) > std::pair(other.left, other.right);
    }
  };

  void lay_out(const WordCounts& words) {
    size_t places = 1;
    words.for_each([&](std::string_view word, int64_t) { places += word.size() + 1; });
    if (places > std::numeric_limits<uint32_t>::max()) {
      throw runtime::InputError(
          "the text has more than 4 GiB of different words, which is too much to learn a vocabulary from: "
          "learn it from a part of the text, and give it as --tokenizer for all of it");
    }
    ids_.reserve(places);
    word_.reserve(places);
    ids_.push_back(kNoWord);
    word_.push_back(0);
    words.for_each([&](std::string_view word, int64_t count) {
      const auto index = static_cast<uint32_t>(counts_.size());
      counts_.push_back(count);
      for (const char c : word) {
        ids_.push_back(id_of_byte_[static_cast<unsigned char>(c)]);
        word_.push_back(index);
      }
      ids_.push_back(kNoWord);
      word_.push_back(index);
    });
    begins_.resize(ids_.size());
    for (uint32_t at = 0; at < begins_.size(); ++at) begins_[at] = at;
  }

  uint32_t length(int32_t id) const {
    return static_cast<uint32_t>(learned_.tokens[static_cast<size_t>(id)].size());
  }
  void push(uint32_t pair) {
    const Pair& known = pairs_[pair];
    queue_.push({known.count, known.left, known.right, pair});
  }
  uint32_t pair_of(int32_t left, int32_t right) {
    const uint32_t pair = index_.of(left, right);
    if (pair == pairs_.size()) pairs_.push_back({left, right});
    return pair;
  }
  // One more occurrence, in the word at `at`, of a pair whose left token begins there.
  void add(int32_t left, int32_t right, uint32_t at) {
    const uint32_t index = pair_of(left, right);
    Pair& pair = pairs_[index];
    pair.count += counts_[word_[at]];
    pair.places.push_back(at);
    if (!std::exchange(pair.touched, true)) touched_.push_back(index);
  }
  void remove(int32_t left, int32_t right, uint32_t at) {
    pairs_[pair_of(left, right)].count -= counts_[word_[at]];
  }

  // The id of the joined token. Two merges may make the same bytes: then it is one token.
  int32_t joined_id(int32_t left, int32_t right) {
    std::string bytes =
        learned_.tokens[static_cast<size_t>(left)] + learned_.tokens[static_cast<size_t>(right)];
    const auto [known, is_new] =
        ids_by_bytes_.emplace(std::move(bytes), static_cast<int32_t>(learned_.tokens.size()));
    if (is_new) learned_.tokens.push_back(known->first);
    return known->second;
  }

  void merge(uint32_t index) {
    const int32_t left = pairs_[index].left, right = pairs_[index].right;
    std::vector<uint32_t> places = std::move(pairs_[index].places);
    pairs_[index].merged = true;
    learned_.merges.emplace_back(left, right);
    const int32_t joined = joined_id(left, right);
    std::ranges::sort(places);  // from left to right within a word
    for (const uint32_t at : places) {
      if (ids_[at] != left) continue;
      const uint32_t second = at + length(left);
      if (ids_[second] != right) continue;
      const uint32_t end = second + length(right);
      if (ids_[at - 1] != kNoWord) {
        const uint32_t before = begins_[at - 1];
        remove(ids_[before], left, at);
        add(ids_[before], joined, before);
      }
      if (ids_[end] != kNoWord) {
        remove(right, ids_[end], at);
        add(joined, ids_[end], at);
      }
      ids_[at] = joined;
      ids_[second] = kInside;
      begins_[end - 1] = at;
    }
    for (const uint32_t pair : touched_) {
      pairs_[pair].touched = false;
      push(pair);
    }
    touched_.clear();
  }

  LearnedMerges learned_;
  std::array<int32_t, 256> id_of_byte_{};
  std::unordered_map<std::string, int32_t> ids_by_bytes_;
  std::vector<int32_t> ids_;      // by place: the token that begins there, kInside or kNoWord
  std::vector<uint32_t> begins_;  // by place: of a token's last byte, where the token begins
  std::vector<uint32_t> word_;    // by place: index in counts_
  std::vector<int64_t> counts_;   // of words
  PairIndex index_;
  std::vector<Pair> pairs_;
  std::priority_queue<Candidate> queue_;  // every pair that may be merged, once with at least its count
  std::vector<uint32_t> touched_;         // pairs that gained occurrences by the merge at work
};

}  // namespace

LearnedMerges learn_merges(const WordCounts& words, int64_t num_tokens,
                           const std::function<void(int64_t)>& progress) {
  return Trainer(words).run(num_tokens, progress);
}

}  // namespace hydrac::prepare
