#include "runtime/program/shared_rows.h"

namespace hydrac::runtime {

NamedTensor shared_by_ranks(NamedTensor own, const std::vector<SharedRows>& stretches) {
  NamedTensor row = own;
  row.shape[0] = 1;
  uint64_t address = own.address;
  int64_t first = 0;
  own.shape[0] = 0;
  for (const SharedRows& stretch : stretches) {
    const int64_t bytes = stretch.rows * row.bytes();
    own.shared.push_back({first, bytes, address, stretch.own * row.bytes()});
    own.shape[0] += stretch.rows;
    first += bytes;
    address += static_cast<uint64_t>(stretch.own * row.bytes());
  }
  return own;
}

}  // namespace hydrac::runtime
