// The source of each training sample of a mixture: a function of the sample's number.
#pragma once
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace hydrac::runtime {

struct MixShare {
  double weight = 1;
  int64_t most = std::numeric_limits<int64_t>::max();  // samples that may be drawn
};

// Blocks of kBlock samples have each source's share, rounded to whole samples, at least one, in random order;
// a source's own samples come in their order. A source that has given all that it may is left out from there
// on, and the others' shares grow. Thread-safe.
class MixOrder {
 public:
  static constexpr int64_t kBlock = 1024;

  MixOrder(std::vector<MixShare> sources, uint64_t seed);

  struct Place {
    size_t source = 0;
    int64_t sample = 0;  // of the source
  };
  Place of(int64_t sample) const;                     // below size()
  int64_t size() const { return size_; }              // samples until no source may give more
  std::vector<int64_t> drawn(int64_t samples) const;  // of each source among the first `samples`

 private:
  // Samples from `begin` on, with the same sources up to the next phase.
  struct Phase {
    int64_t begin = 0;
    std::vector<int64_t> drawn;  // of each source before
    std::vector<int64_t> parts;  // of each source in a block
  };
  struct Block {
    int64_t begin = -1;
    std::vector<Place> places;
  };
  std::vector<int64_t> parts_of(const std::vector<int64_t>& drawn) const;
  Block block_of(const Phase& phase, int64_t index) const;
  const Phase& phase_at(int64_t sample) const;
  // Makes newest_ the block of `sample`, and returns the sample's index in it.
  size_t find(int64_t sample) const;

  std::vector<MixShare> sources_;
  uint64_t seed_;
  std::vector<Phase> phases_;
  int64_t size_ = std::numeric_limits<int64_t>::max();
  mutable std::mutex mutex_;
  mutable Block newest_;  // neighbouring samples are asked for one after another
};

}  // namespace hydrac::runtime
