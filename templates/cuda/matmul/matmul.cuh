// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage, with an epilogue of the
// caller's: c itself is written only if the epilogue writes it. Every run gives the same bits.
//
// An epilogue is called for every eight consecutive columns of every row, once, with the matmul rounded to
// Storage. It is a struct with
//   static constexpr int sums;   // column sums that it keeps, 0 to 2
//   struct Operands;             // what a call reads of its row in global memory; may be empty
//   void begin(int column);      // before a thread's rows of a tile: loads what depends on the column alone
//   Operands load(std::int64_t row, int column) const;  // some rows ahead of the call
//   void operator()(std::int64_t row, int column, const Vector<Storage, 8>& values, const Operands&);
// or, paired, with the values of columns `column` and `column + n / 2`, column < n / 2:
//   void operator()(std::int64_t row, int column, const Vector<Storage, 8>& first,
//                   const Vector<Storage, 8>& second, const Operands&);
// and, with sums,
//   float sum[sums][8];          // of the thread's columns, over the rows of a tile: the calls add to them
//   float* partials[sums];       // each [matmul_sums_rows, columns]: a row is a tile's sums
// Of a tensor that the kernel writes, a call reads only the elements that it writes.
#pragma once
#include "cuda/matmul/few_rows.cuh"
#include "cuda/matmul/one_tile.cuh"
#include "cuda/matmul/persistent.cuh"
#include "cuda/matmul/whole_rows.cuh"

namespace hydrac::cuda {

// Launch: matmul_launch(problem, tile), with __cluster_dims__(its cluster, 1, 1) and
// __launch_bounds__(threads, 1). a and b are kernel parameters, `const __grid_constant__`, encoded as
// matmul_map_a() and matmul_map_b() say. It waits for the previous kernel itself; but where a block has one
// tile, it loads b before, which no kernel that this one may overlap writes.
template <class Config, class Epilogue>
__device__ __forceinline__ void matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                       Epilogue& epilogue) {
  static_assert(!Config::has_tail && Config::experts == 0);
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  if constexpr (Config::tile.schedule == MatmulSchedule::persistent) {
    persistent_matmul<Config>({a, b, a, b}, rows, epilogue, shared_memory);
  } else if constexpr (Config::tile.schedule == MatmulSchedule::one_tile) {
    one_tile_matmul<Config>(a, b, rows, epilogue, shared_memory);
  } else if constexpr (Config::tile.schedule == MatmulSchedule::few_rows) {
    few_rows_matmul<Config>(a, b, rows, epilogue, shared_memory);
  } else {
    whole_rows_matmul<Config>(a, b, rows, epilogue, shared_memory);
  }
}

// The same for c = a . b + tail_a . tail_b, of persistent blocks: both products are one sum in float32. The
// tail's maps are encoded as those of a and b of matmul_tail(problem).
template <class Config, class Epilogue>
__device__ __forceinline__ void matmul(const TensorMap& a, const TensorMap& b, const TensorMap& tail_a,
                                       const TensorMap& tail_b, std::int64_t rows, Epilogue& epilogue) {
  static_assert(Config::has_tail);
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  persistent_matmul<Config>({a, b, tail_a, tail_b}, rows, epilogue, shared_memory);
}

// The same for rows that are sorted by expert: those of expert e, from offsets[e] to offsets[e + 1], times
// its matrix of b. The offsets are multiples of kExpertRows. Rows from offsets[experts] on stay as they are.
template <class Config, class Epilogue>
__device__ __forceinline__ void grouped_matmul(const TensorMap& a, const TensorMap& b, const int* offsets,
                                               Epilogue& epilogue) {
  static_assert(Config::experts > 0 && Epilogue::sums == 0);
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  persistent_matmul<Config>({a, b, a, b, offsets}, 0, epilogue, shared_memory);
}

}  // namespace hydrac::cuda
