// CRC-32C (Castagnoli), the checksum of checkpoint manifests and of TensorBoard's record framing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hydrac::runtime {

// Continues `crc` (0 at the start) over `bytes`: crc32c(b, crc32c(a)) is the checksum of a followed by b.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same value from tables alone, on processors without the instruction. Public for the test that compares
// them.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace hydrac::runtime
