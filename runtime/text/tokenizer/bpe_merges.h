// Byte-pair encoding of one piece: joins adjacent ids in the order of their merge's rank.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace hydrac::runtime {

// From pairs of ids to the merge that joins them; open addressing, built once.
class MergeTable {
 public:
  struct Merge {
    int32_t rank;    // lower goes first
    int32_t result;  // the joined id
  };
  explicit MergeTable(size_t expected);
  // A pair given twice keeps its last merge (as Hugging Face reads such files).
  void set(int32_t left, int32_t right, Merge merge);
  // Null when the pair does not merge.
  const Merge* find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key;  // kEmpty, or left and right in its halves
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // ids are not negative
  static uint64_t key_of(int32_t left, int32_t right);
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
};

// Working memory of merge_ids(); reused between calls.
struct MergeScratch {
  struct Symbol {
    int32_t id;    // -1: joined to the one before
    int32_t prev;  // index, -1 at the front
    int32_t next;  // index, -1 at the end
  };
  struct Candidate {
    int32_t rank;
    int32_t at;  // index of the left symbol
    int32_t result;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// Replaces `ids` (fewer than 2^31 of them) by the ids after all merges: always the lowest rank first, the
// leftmost among equals. O(n log n).
void merge_ids(const MergeTable& table, std::vector<int32_t>& ids, MergeScratch& scratch);

}  // namespace hydrac::runtime
