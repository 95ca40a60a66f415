// The query terms where queries are a matmul's columns: the gradients of keys need them so.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac {

// Starts the copy of a tile's query terms: to `columns` lse2 and then `columns` delta. Zeros from valid_rows
// on.
template <int columns, int threads>
__device__ __forceinline__ void load_column_terms(std::uint32_t to, const QueryTerms* from, int valid_rows) {
#pragma unroll
  for (int first = 0; first < 2 * columns; first += threads) {
    const int index = first + static_cast<int>(threadIdx.x) % threads;
    if (index >= 2 * columns) break;
    const int column = index % columns;
    const QueryTerms* term = from + (column < valid_rows ? column : 0);
    ptx::copy_to_shared<4>(to + index * 4, index < columns ? &term->lse2 : &term->delta, column < valid_rows);
  }
}

// One of the two numbers of each of a thread's columns.
template <int columns>
struct ColumnTerms {
  float at[columns / 8][2];

  __device__ __forceinline__ void load(std::uint32_t from, const Place& place) {
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
      const auto pair = ptx::load_shared<2>(from + place.column(n, 0) * 4);
      at[n][0] = float_from_bits(pair.at[0]), at[n][1] = float_from_bits(pair.at[1]);
    }
  }
};

}  // namespace hydrac
