// Bytes of tensors that ranks share: each has a part.
#pragma once
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// Rows that ranks share. Of `rows` rows of all ranks together, in order, each rank holds `own` at the same
// place; if ranks * own exceeds `rows`, the last ranks' rows end in padding. There are `times` such
// stretches, one after another.
struct SharedRows {
  int64_t rows = 0, own = 0;
  int64_t times = 1;
};

// `own`: the tensor as a rank has it, [the sum of its own rows, ...]. The result is that of all ranks.
NamedTensor shared_by_ranks(NamedTensor own, const std::vector<SharedRows>& stretches);

// The sharded parts of the bytes from `address` on. Each entry of `all` begins at a placeholder address of
// its own (`first`), which is never dereferenced.
std::vector<SharedBytes> shared_at(const std::vector<SharedBytes>& all, int64_t address, int64_t bytes);

// Says of a piece how ranks share it where it lies in `all`.
void share_piece(TensorPiece& piece, const std::vector<SharedBytes>& all);

// A rank's bytes of a stretch: `count` bytes at `address`, those of the tensor from `first` on.
struct OwnBytes {
  int64_t first = 0, count = 0;
  int64_t address = 0;
};
OwnBytes own_bytes(const SharedBytes& stretch, int rank);
// Likewise of the part of a piece that ranks share, or that one of them has.
OwnBytes own_bytes(const TensorPiece& piece, int rank);

}  // namespace hydrac::runtime
