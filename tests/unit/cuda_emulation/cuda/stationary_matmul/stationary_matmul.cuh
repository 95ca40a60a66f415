// The contract of templates/cuda/stationary_matmul/stationary_matmul.cuh in plain loops, as
// cuda/matmul/matmul.cuh beside it has that of the kernel for large matmuls.
#pragma once
#include <cstring>

#include "cuda/matmul/matmul.cuh"
#include "cuda/stationary_matmul/geometry.h"

namespace hydrac::cuda {

template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, StationaryTile tile_>
struct StationaryConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr StationaryTile tile = tile_;
};

struct ElementColumns {
  int at[4];
};

template <typename T>
Vector<T, 8> load_elements(const T* row, const ElementColumns& columns) {
  Vector<T, 8> elements;
  for (int j = 0; j < 8; ++j) elements.at[j] = row[columns.at[j / 2]];
  return elements;
}

// Each thread takes four columns of a tile of rows, two rows at a time; the last of an odd number twice.
template <class Config, class Epilogue>
void stationary_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
  using Storage = typename Config::Storage;
  wait_for_previous_kernel();
  launch_next_kernel();
  constexpr int kShares = Config::n / 4, kRows = StationaryTile::rows;
  const std::int64_t tiles = (rows + kRows - 1) / kRows * kShares;
  for (std::int64_t tile = blockIdx.x * blockDim.x + threadIdx.x; tile < tiles;
       tile += gridDim.x * blockDim.x) {
    const int column = static_cast<int>(tile % kShares) * 4;
    const std::int64_t first = tile / kShares * kRows, last = min(first + kRows, rows);
    epilogue.begin({column, column + 1, column + 2, column + 3});
    for (std::int64_t row = first; row < last; row += 2) {
      const std::int64_t pair[] = {row, row + 1 < last ? row + 1 : row};
      Vector<Storage, 8> matmuls, out[Epilogue::outputs];
      for (int j = 0; j < 8; ++j)
        matmuls.at[j] = plain_matmuls<Config>(a, b, pair[j % 2], column / 8 * 8).at[column % 8 + j / 2];
      const typename Epilogue::Outputs outputs = epilogue(matmuls);
      static_assert(sizeof(outputs) == sizeof(out));
      std::memcpy(out, &outputs, sizeof(out));
      for (int i = 0; i < Epilogue::outputs; ++i) {
        auto* const matrix = reinterpret_cast<Storage*>(epilogue.matrices[i]->words[0]);
        for (int j = 0; j < 8; ++j) matrix[pair[j % 2] * Config::n + column + j / 2] = out[i].at[j];
      }
    }
  }
}

}  // namespace hydrac::cuda
