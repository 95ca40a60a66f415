// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage, with an epilogue of the
// caller's that may need sums over whole rows of c, such as a norm; c itself is written only if the epilogue
// writes it.
//
// An epilogue is called for every eight consecutive columns of every row, `passes` times, with the matmuls
// rounded to Storage. Between two passes the threads of a row add up what each has found. It is a struct with
//   static constexpr int sums;        // column sums that it keeps, 0 to 3
//   static constexpr int passes;      // 2 or more
//   static constexpr int reductions;  // sums over the row that a pass asks for, at most; 1 or more
//   struct Operands;                  // what a row needs of global memory; may be empty
//   struct Kept;                      // what later passes need of the calls before; may be empty
//   void begin(int column);           // before the rows: loads what depends on the column alone
//   Operands load(std::int64_t row, int column) const;  // some time ahead of the calls
//   template <int pass>
//   void apply(std::int64_t row, int column, const Vector<Storage, 8>& values, const Operands&, Kept&,
//              const float (&totals)[reductions],  // over the row, of what the pass before found
//              float (&partial)[reductions]);      // zeros; what these columns add to this pass's
// It says what `load` reads as rows of [rows, n] and as one f32 of each row, so that where a block has whole
// rows, these are copied ahead of time and `load` reads the copies, through pointers that are changed:
//   static constexpr int row_tensors, row_bytes, row_statistics;  // how many, bytes of a row of all, how
//   many template <class Visit> void visit_rows(Visit& visit);         // visit(pointer, n) for each template
//   <class Visit> void visit_statistics(Visit& visit);   // visit(pointer) for each
// and, with sums,
//   float sum[sums][8];               // of these columns, over the rows: the calls add to them
//   float* partials[sums];            // each [row_matmul_sums_rows, n]: columns of one matrix, side by side
// Of a tensor that the kernel writes, a call reads only the elements that it writes.
//
// No kernel that this one may overlap writes b: it is loaded while the kernel before still runs.
#pragma once
#include "cuda/row_matmul/block_rows.cuh"
#include "cuda/row_matmul/exchanged_rows.cuh"

namespace hydrac::cuda {

// Launch: row_matmul_launch(problem, tile), with __cluster_dims__(cluster, 1, 1) and
// __launch_bounds__(threads, 1). a and b are kernel parameters, `const __grid_constant__`, encoded as
// row_matmul_map_a and _b say. It waits for the previous kernel itself. Every run gives the same bits.
template <class Config, class Epilogue>
__device__ __forceinline__ void row_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                           Epilogue& epilogue) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  if constexpr (Config::tile.has_whole_rows()) {
    multiply_whole_rows<Config>(a, b, rows, epilogue, shared_memory);
  } else {
    exchange_rows<Config>(a, b, rows, epilogue, shared_memory);
  }
}

}  // namespace hydrac::cuda
