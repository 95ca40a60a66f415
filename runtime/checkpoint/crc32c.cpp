#include "runtime/checkpoint/crc32c.h"

#include <array>
#include <cstring>

namespace hydrac::runtime {

namespace {

constexpr uint32_t reflected_polynomial = 0x82f63b78;

// tables[k][b]: the checksum of byte b followed by k zero bytes, so that eight bytes take eight independent
// lookups.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? reflected_polynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = (shorter >> 8) ^ tables[0][shorter & 0xff];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(const std::byte* at, size_t count, uint32_t crc) {
  uint64_t wide = ~crc;
  for (; count >= 8; at += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; count > 0; ++at, --count) narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*at));
  return ~narrow;
}
#endif

uint32_t byte_of(uint64_t word, int index) {
  return static_cast<uint32_t>(word >> (8 * index)) & 0xff;
}

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  const std::byte* at = bytes.data();
  size_t count = bytes.size();
  for (; count >= 8; at += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (int i = 0; i < 8; ++i) crc ^= tables[static_cast<size_t>(7 - i)][byte_of(word, i)];
  }
  for (; count > 0; ++at, --count)
    crc = (crc >> 8) ^ tables[0][(crc ^ std::to_integer<uint32_t>(*at)) & 0xff];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_sse42(bytes.data(), bytes.size(), crc);
#endif
  return crc32c_portable(bytes, crc);
}

}  // namespace hydrac::runtime
