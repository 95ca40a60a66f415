// Score rule and mask of the spec, applied to a fragment of scores before the softmax.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/fragment.cuh"

namespace hydrac::cuda {

// From matmuls of queries and keys to what Scores::factor() multiplies, where that is not the same.
template <class Scores, int row_tiles, int N>
__device__ __forceinline__ void score_matmuls(Fragment<row_tiles, N>& c, const SequenceShape& shape) {
  for_elements<row_tiles, N>(
      [&](int m, int n, int e) { c.at[m][n][e] = Scores::value(shape, c.at[m][n][e]); });
}

// Gives the elements of keys that their query may not see `value`, and those of keys past the sequence. Query
// and key of row 0 and column 0 are given; rows are keys if `transposed`.
template <class Mask, bool transposed, int row_tiles, int N>
__device__ __forceinline__ void mask(Fragment<row_tiles, N>& c, const Place& place, int first_row,
                                     int first_column, const SequenceShape& shape, float value) {
  for_elements<row_tiles, N>([&](int m, int n, int e) {
    const int row = first_row + place.row<row_tiles>(m, e / 2);
    const int column = first_column + place.column(n, e);
    const int query = transposed ? column : row, key = transposed ? row : column;
    if (key >= shape.tokens || !Mask::sees(shape, query, key)) c.at[m][n][e] = value;
  });
}

// The same of a sequence of documents, whose rows look their range up once. Rows past the sequence are not
// stored.
template <class Mask, bool transposed, int row_tiles, int N>
__device__ __forceinline__ void mask(Fragment<row_tiles, N>& c, const Place& place, int first_row,
                                     int first_column, const PackedShape& shape, float value) {
  TokenRange seen[row_tiles][2];
  for_rows<row_tiles>(place, [&](int m, int half, int row) {
    seen[m][half] =
        transposed ? Mask::queries_of(shape, first_row + row) : Mask::keys_of(shape, first_row + row);
  });
  for_elements<row_tiles, N>([&](int m, int n, int e) {
    const int column = first_column + place.column(n, e);
    const TokenRange& of_row = seen[m][e / 2];
    if (column < of_row.first || column >= of_row.end) c.at[m][n][e] = value;
  });
}

}  // namespace hydrac::cuda
