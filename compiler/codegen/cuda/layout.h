// The layout of a Body on a GPU: its rows and columns are spread over threads.
#pragma once
#include <vector>

#include "codegen/stages.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// How one load or store accesses the columns that a thread holds, consecutive values of the space's last
// variable.
struct ColumnAccess {
  enum class Kind {
    consecutive,  // in memory as well: moves in accesses of `width` elements
    pairs,      // every other element, of a tensor that has the ones between: moves with these, twice as many
    constant,   // one element for all of them
    scattered,  // strided
    gathered,   // at an index that is a column value
  } kind = Kind::constant;
  int width = 1;   // elements an access may move by its alignment, at most 16 bytes
  int parity = 0;  // of pairs: which element of each
};
ColumnAccess column_access(const ir::Graph& graph, const ir::Node& node, int operand, const ir::Index& index,
                           int space, const std::vector<ir::Dependence>& deps);

// A column space over the lanes of a row: chunk k of lane i is the `vector` columns from (k * lanes + i) *
// vector on.
struct ColumnLayout {
  int64_t width = 1;  // columns
  int vector = 1;     // divides the last dimension
  int chunks = 1;     // of a lane, together in registers
  int64_t steps = 1;  // more than 1: the row is walked `chunks` chunks a step, and no value outlives its step

  bool covers_exactly(int lanes) const {
    return static_cast<int64_t>(lanes) * chunks * vector * steps == width;
  }
};

struct CudaLayout {
  enum class Shape {
    flat,   // a thread for each chunk of each row; nothing is shared between threads. Also epilogues.
    rows,   // `lanes` threads for each row
    tiles,  // `lanes` threads for each tile of the columns; blocks share the rows of a tile
  } shape = Shape::flat;
  int lanes = 1;          // a power of two up to 32, or a multiple of 32
  int rows = 1;           // in a block, side by side
  int64_t tiles = 1;      // of columns
  int64_t blocks = 1;     // with column sums: that share the rows (of a tile); otherwise as many as needed
  int blocks_per_sm = 1;  // of those that share rows: as many as run at once
  std::vector<ColumnLayout> columns;  // by column space

  int threads() const { return lanes * rows; }
};

CudaLayout cuda_layout(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

}  // namespace hydrac::codegen
