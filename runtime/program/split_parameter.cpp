#include "runtime/program/split_parameter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/program/shared_bytes.h"

namespace hydrac::runtime {

std::vector<TensorPiece> pieces_of(const SplitParameter& parameter, int64_t first_row, int64_t rows,
                                   int64_t first, uint64_t address, int64_t element) {
  const int64_t row = parameter.row * element, end_row = first_row + rows;
  if (parameter.rows.empty()) {
    const int64_t own = row / parameter.ranks;
    return {{first, rows, row, row, own, parameter.ranks, address + static_cast<uint64_t>(first_row * own)}};
  }
  std::vector<TensorPiece> pieces;
  for (const SplitParameter::Rows& part : parameter.rows) {
    const int64_t count = std::min(part.first + part.count, end_row) - part.first;
    if (part.first >= first_row && count > 0)
      pieces.push_back({first + (part.first - first_row) * row, 1, 0, count * row, part.own * row,
                        parameter.ranks, address});
    address += static_cast<uint64_t>(part.own * row);
  }
  return pieces;
}

NamedTensor whole_pack(NamedTensor own, int64_t whole_rows, const std::vector<PackedParameter>& parameters) {
  const int64_t element = dtype_bytes(own.dtype);
  const std::vector<SharedBytes> shared = std::exchange(own.shared, {});
  const uint64_t start = shared.empty() ? own.address : 0;
  for (const PackedParameter& parameter : parameters) {
    for (int slot = 0; slot < parameter.slots; ++slot) {
      const int64_t first = (parameter.whole_offset + slot * parameter.whole_stride) * element;
      const int64_t at = (parameter.offset + slot * parameter.stride) * element;
      std::ranges::move(
          pieces_of(parameter.split, 0, parameter.rows, first, start + static_cast<uint64_t>(at), element),
          std::back_inserter(own.pieces));
    }
  }
  for (TensorPiece& piece : own.pieces) share_piece(piece, shared);
  own.shape[0] = whole_rows;
  return own;
}

}  // namespace hydrac::runtime
