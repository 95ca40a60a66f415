#include "runtime/program/shared_bytes.h"

#include <algorithm>

namespace hydrac::runtime {

NamedTensor shared_by_ranks(NamedTensor own, const std::vector<SharedRows>& stretches) {
  NamedTensor row = own;
  row.shape[0] = 1;
  uint64_t address = own.address;
  int64_t first = 0;
  own.shape[0] = 0;
  for (const SharedRows& stretch : stretches) {
    const int64_t bytes = stretch.rows * row.bytes();
    for (int64_t i = 0; i < stretch.times; ++i) {
      own.shared.push_back({first, bytes, address, stretch.own * row.bytes()});
      own.shape[0] += stretch.rows;
      first += bytes;
      address += static_cast<uint64_t>(stretch.own * row.bytes());
    }
  }
  return own;
}

std::vector<SharedBytes> shared_at(const std::vector<SharedBytes>& all, int64_t address, int64_t bytes) {
  for (const SharedBytes& stretch : all) {
    const int64_t before = address - stretch.first;
    if (before >= 0 && before < stretch.bytes) return {{0, bytes, stretch.address, stretch.own, before}};
  }
  return {};
}

void share_piece(TensorPiece& piece, const std::vector<SharedBytes>& all) {
  const auto shared = shared_at(all, static_cast<int64_t>(piece.address), piece.own_bytes());
  if (!shared.empty()) piece.shared = shared[0];
}

OwnBytes own_bytes(const TensorPiece& piece, int rank) {
  if (piece.shared) return own_bytes(*piece.shared, rank);
  return {0, piece.own_bytes(), static_cast<int64_t>(piece.address)};
}

OwnBytes own_bytes(const SharedBytes& stretch, int rank) {
  const int64_t begin = std::max(rank * stretch.own, stretch.before),
                end = std::min((rank + 1) * stretch.own, stretch.before + stretch.bytes);
  return {stretch.first + begin - stretch.before, std::max<int64_t>(end - begin, 0),
          static_cast<int64_t>(stretch.address) + begin - rank * stretch.own};
}

}  // namespace hydrac::runtime
