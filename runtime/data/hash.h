// The 64-bit hash behind fingerprints, cache keys and checksums. Fast and well mixed, not cryptographic: it
// finds changed and damaged files, not forged ones. The values are part of file formats: changing them
// orphans every token cache.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hydrac::runtime {

// A bijection of 64-bit words (the finalizer of splitmix64).
inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Takes a sequence of fields; field boundaries count, so ("ab", "c") and ("a", "bc") differ.
class Hash64 {
 public:
  Hash64& add(uint64_t word) {
    state_ = mix64(state_ ^ word);
    return *this;
  }

  Hash64& add(std::string_view bytes) {
    const char* p = bytes.data();
    size_t left = bytes.size();
    for (; left >= 8; left -= 8, p += 8) absorb(little_endian(p, 8));
    if (left != 0) absorb(little_endian(p, left));
    return add(bytes.size());
  }

  uint64_t value() const { return mix64(state_); }

 private:
  static uint64_t little_endian(const char* p, size_t n) {
    uint64_t word = 0;  // the project's targets are little-endian
    std::memcpy(&word, p, n);
    return word;
  }
  void absorb(uint64_t word) {
    state_ = (state_ ^ word) * 0x9fb21c651e98df25u;
    state_ ^= state_ >> 32;
  }

  uint64_t state_ = 0x243f6a8885a308d3u;
};

}  // namespace hydrac::runtime
