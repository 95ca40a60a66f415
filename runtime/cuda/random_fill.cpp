#include "runtime/cuda/random_fill.h"

#include <algorithm>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/data/hash.h"

namespace hydrac::runtime::cuda {
namespace {

// Bits of a floating type; `half` is those of 0.5.
template <class Word>
std::vector<Word> random_words(std::size_t count, Word sign_and_mantissa, Word half, Word exponent_step) {
  std::vector<Word> words(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t random = mix64(i);
    const Word exponent = (random >> 63) != 0 ? half : static_cast<Word>(half - exponent_step);
    words[i] = static_cast<Word>((static_cast<Word>(random) & sign_and_mantissa) | exponent);
  }
  return words;
}

std::vector<std::byte> random_pattern(ElementType type) {
  constexpr std::size_t count = 65521;  // a prime: rows of a matrix differ
  const auto bytes = [](const auto& words) {
    const auto* start = reinterpret_cast<const std::byte*>(words.data());
    return std::vector<std::byte>(start, start + words.size() * sizeof words[0]);
  };
  switch (type) {
    case ElementType::f32:
      return bytes(random_words<std::uint32_t>(count, 0x807fffffu, 0x3f000000u, 0x00800000u));
    case ElementType::bf16:
      return bytes(random_words<std::uint16_t>(count, 0x807f, 0x3f00, 0x0080));
    case ElementType::f16:
      return bytes(random_words<std::uint16_t>(count, 0x83ff, 0x3800, 0x0400));
    case ElementType::f8e4m3:
      return bytes(random_words<std::uint8_t>(count, 0x87, 0x30, 0x08));
    case ElementType::f8e5m2:
      return bytes(random_words<std::uint8_t>(count, 0x83, 0x38, 0x04));
  }
  return {};
}

}  // namespace

// One pattern after the other: once from the host, then doubled on the device.
void fill_random(std::byte* device, std::int64_t bytes, ElementType type, const Stream& stream) {
  if (bytes == 0) return;
  const std::vector<std::byte> pattern = random_pattern(type);
  std::int64_t filled = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(pattern.size()));
  copy_to_device(device, pattern.data(), filled);
  while (filled < bytes) {
    const std::int64_t more = std::min(filled, bytes - filled);
    copy_on_device(device + filled, device, more, stream);
    filled += more;
  }
}

}  // namespace hydrac::runtime::cuda
