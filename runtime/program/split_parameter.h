// Parameters divided among ranks that share layers (parallel.tensor), and the checkpoint tensors that their
// parts belong to.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// A parameter of whole rows, `row` elements each. By rows: of `count` rows from `first` on rank r has the
// r-th `own`, the last ranks fewer, followed by padding; its stretches lie one behind the other. Where `rows`
// is empty, rank r has the r-th of equal parts of every row. ranks 1: each has all of it, in one stretch.
struct SplitParameter {
  struct Rows {
    int64_t first = 0, count = 0, own = 0;
  };
  int64_t ranks = 1;
  int64_t row = 1;
  std::vector<Rows> rows = {};
};

// A rank's pieces of rows [first_row, first_row + rows) of the whole parameter, as a tensor that has these
// from its byte `first` on. The rank's part of the parameter lies at `address`, in elements of so many bytes.
// Stretches are within these rows or outside of them; they may end behind them, in padding.
std::vector<TensorPiece> pieces_of(const SplitParameter& parameter, int64_t first_row, int64_t rows,
                                   int64_t first, uint64_t address, int64_t element);

// A parameter in the pack of its rank and in that which one process has: slot s begins `offset` + s *
// `stride` elements behind the start of the one, and `whole_offset` + s * `whole_stride` of the other.
// `rows`: of the whole parameter.
struct PackedParameter {
  SplitParameter split;
  int64_t rows = 0;
  int64_t whole_offset = 0, whole_stride = 0;
  int64_t offset = 0, stride = 0;
  int slots = 1;
};

// `own`: a rank's pack, [rows, ...], or that of ranks which share it (shared_by_ranks()). The result is the
// pack that one process has, of `whole_rows`.
NamedTensor whole_pack(NamedTensor own, int64_t whole_rows, const std::vector<PackedParameter>& parameters);

}  // namespace hydrac::runtime
