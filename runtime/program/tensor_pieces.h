// Maps a rank's bytes of a piece to those of the whole tensor.
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// `bytes` that are contiguous in the whole tensor, from byte `whole` on, and in the rank's part of the piece,
// from byte `own` on.
struct PieceStretch {
  int64_t whole = 0, own = 0, bytes = 0;
};

// Calls use(PieceStretch) for each stretch of rank `rank` of piece.parts within bytes [begin, begin + count)
// of its part, in order. The rest is padding.
template <class Use>
void for_each_stretch(const TensorPiece& piece, int rank, int64_t begin, int64_t count, const Use& use) {
  const int64_t skipped = piece.parts > 1 ? rank * piece.own : 0;
  const int64_t of_line = std::clamp<int64_t>(piece.bytes - skipped, 0, piece.own);
  if (of_line == 0) return;
  const int64_t end = begin + count;
  for (int64_t line = begin / piece.own; line * piece.own < end; ++line) {
    const int64_t start = line * piece.own;
    const int64_t first = std::max(begin, start), last = std::min(end, start + of_line);
    if (first < last)
      use(PieceStretch{piece.first + line * piece.stride + skipped + first - start, first, last - first});
  }
}

}  // namespace hydrac::runtime
