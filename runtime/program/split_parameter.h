// Parameters that are sharded over ranks which share layers (parallel.tensor), and the checkpoint tensors
// that their parts belong to.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// A parameter of rows of `row` elements. On `rows`: of `count` rows from `first` on, rank r has the r-th
// `own`; the last ranks may have fewer, followed by padding. Its stretches are consecutive. If `rows` is
// empty, rank r has the r-th of equal parts of every row. ranks 1: each has all of it, in one stretch.
struct SplitParameter {
  struct Rows {
    int64_t first = 0, count = 0, own = 0;
  };
  int64_t ranks = 1;
  int64_t row = 1;
  std::vector<Rows> rows = {};
};

// A rank's pieces of rows [first_row, first_row + rows) of the whole parameter, in a tensor that has these
// rows from its byte `first` on. The rank's part of the parameter lies at `address`, with elements of so many
// bytes. A stretch is inside these rows or outside of them; padding may extend past them.
std::vector<TensorPiece> pieces_of(const SplitParameter& parameter, int64_t first_row, int64_t rows,
                                   int64_t first, uint64_t address, int64_t element);

// A parameter in its rank's pack and in that of one process: slot s begins at `offset` + s * `stride`
// elements of the former, and at `whole_offset` + s * `whole_stride` of the latter. `rows`: of the whole
// parameter.
struct PackedParameter {
  SplitParameter split;
  int64_t rows = 0;
  int64_t whole_offset = 0, whole_stride = 0;
  int64_t offset = 0, stride = 0;
  int slots = 1;
};

// `own`: a rank's pack, [rows, ...], or that of ranks which share it (shared_by_ranks()). Returns the pack
// that one process has, with `whole_rows`.
NamedTensor whole_pack(NamedTensor own, int64_t whole_rows, const std::vector<PackedParameter>& parameters);

}  // namespace hydrac::runtime
