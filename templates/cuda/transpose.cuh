// The transpose of a matrix of 8-bit elements.
#pragma once
#include <cstdint>

#include "cuda/transpose_geometry.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Four words of four bytes each, as the rows of a matrix: its columns instead.
__device__ inline void transpose_bytes(std::uint32_t (&words)[4]) {
  const auto pairs = [](std::uint32_t a, std::uint32_t b) {  // bytes 0 and 2 of both, then 1 and 3
    return Vector<std::uint32_t, 2>{
        {(a & 0x00FF00FFu) | (b & 0x00FF00FFu) << 8, (a >> 8 & 0x00FF00FFu) | (b & 0xFF00FF00u)}};
  };
  const auto upper = pairs(words[0], words[1]), lower = pairs(words[2], words[3]);
  words[0] = (upper.at[0] & 0xFFFFu) | lower.at[0] << 16;
  words[1] = (upper.at[1] & 0xFFFFu) | lower.at[1] << 16;
  words[2] = upper.at[0] >> 16 | (lower.at[0] & 0xFFFF0000u);
  words[3] = upper.at[1] >> 16 | (lower.at[1] & 0xFFFF0000u);
}

// y[columns, rows] = x[rows, columns]^T. A thread reads four rows of 16 columns, and the block's tile is
// exchanged in shared memory: a word is four rows of a column. Each 16 columns are shifted by 4 words from
// the previous 16, so neither the writes nor the reads of rows have bank conflicts.
template <int rows, int columns>
__device__ void transpose(const std::uint8_t* x, std::uint8_t* y) {
  constexpr int kTile = kTransposeTile, kWords = kTile / 4;  // of a column
  alignas(16) __shared__ std::uint32_t tile[kTile][kWords];
  constexpr int kTiles = (columns + kTile - 1) / kTile;
  const int first_row = static_cast<int>(blockIdx.x) / kTiles * kTile,
            first_column = static_cast<int>(blockIdx.x) % kTiles * kTile;
  const auto place = [](int column, int word) { return word ^ (column / 16 % 8 * 4); };

  const int group = threadIdx.x % 8, quad = threadIdx.x / 8;
  const int row = first_row + quad * 4, column = first_column + group * 16;
  if (row < rows && column < columns) {
    Vector<std::uint32_t, 4> in[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      in[i] = load<4>(reinterpret_cast<const std::uint32_t*>(x + std::int64_t{row + i} * columns + column));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      std::uint32_t words[4] = {in[0].at[w], in[1].at[w], in[2].at[w], in[3].at[w]};
      transpose_bytes(words);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int c = group * 16 + w * 4 + j;
        tile[c][place(c, quad)] = words[j];
      }
    }
  }
  __syncthreads();  // the whole tile is there, turned
#pragma unroll
  for (int pass = 0; pass < 4; ++pass) {
    const int c = pass * 32 + static_cast<int>(threadIdx.x) / 8, word = static_cast<int>(threadIdx.x) % 8 * 4;
    if (first_column + c >= columns || first_row + word * 4 >= rows) continue;
    const auto out = load<4>(&tile[c][place(c, word)]);
    store(reinterpret_cast<std::uint32_t*>(y + std::int64_t{first_column + c} * rows + first_row + word * 4),
          out);
  }
}

}  // namespace hydrac::cuda
