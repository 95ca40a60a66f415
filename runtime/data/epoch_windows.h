// The shuffled windows of one stretch of positions, epoch after epoch, without a list of them.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "runtime/data/hash.h"

namespace hydrac::runtime {

// A permutation of [0, size) chosen by `key`, computed in O(1) memory: a Feistel network over the next even
// power of two, walked until it lands inside.
class KeyedPermutation {
 public:
  KeyedPermutation(int64_t size, uint64_t key)
      : size_(static_cast<uint64_t>(size)), key_(key), half_bits_((std::bit_width(size_ - 1) + 1) / 2) {}

  int64_t operator()(int64_t index) const {
    auto x = static_cast<uint64_t>(index);
    do {
      x = encrypt(x);
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

 private:
  static constexpr uint64_t kRounds = 6;
  uint64_t encrypt(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = x >> half_bits_, right = x & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (mix64(right ^ mix64(key_ + round)) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

// Windows of `length` positions, `stride` apart, in a stretch of `positions` >= length. Every epoch has the
// same number of them, but starts them at a place of its own, so that windows cut the stretch differently
// each time.
class EpochWindows {
 public:
  EpochWindows(int64_t positions, int64_t length, int64_t stride)
      : stride_(stride),
        count_(positions < length + stride ? 1 : (positions - length - (stride - 1)) / stride + 1),
        slack_(positions - length - (count_ - 1) * stride) {}

  // The same windows in each epoch, as many as fit from the stretch's start on.
  static EpochWindows alike(int64_t positions, int64_t length, int64_t stride) {
    EpochWindows windows(positions, length, stride);
    windows.count_ = (positions - length) / stride + 1;
    windows.slack_ = 0;
    return windows;
  }

  int64_t count() const { return count_; }
  // The first position of window `index` of [0, count()), in an epoch that `key` names.
  int64_t begin(int64_t index, uint64_t key) const {
    const auto choices = static_cast<uint64_t>(slack_) + 1;
    return static_cast<int64_t>(mix64(key) % choices) + index * stride_;
  }

 private:
  int64_t stride_;
  int64_t count_;
  int64_t slack_;
};

// The key of an epoch for a purpose: permutations and window starts draw different ones.
inline uint64_t epoch_key(uint64_t seed, int64_t epoch, uint64_t purpose) {
  return Hash64().add(seed).add(static_cast<uint64_t>(epoch)).add(purpose).value();
}

}  // namespace hydrac::runtime
