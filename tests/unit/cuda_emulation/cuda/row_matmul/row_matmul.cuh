// The contract of templates/cuda/row_matmul/row_matmul.cuh in plain loops, for the emulator: a thread has
// all columns of the rows of a block.
#pragma once
#include <vector>

#include "cuda/matmul/matmul.cuh"
#include "cuda/row_matmul/geometry.h"

namespace hydrac::cuda {

template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, RowMatmulTile tile_>
struct RowMatmulConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_), k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr int rows = tile_.rows / tile_.across;  // of a block
};

// The passes over a row from `pass` on. `epilogues`: one for every eight columns.
template <int pass, class Epilogue, class Values>
void run_passes(std::vector<Epilogue>& epilogues, std::int64_t row, const std::vector<Values>& values,
                const std::vector<typename Epilogue::Operands>& operands,
                std::vector<typename Epilogue::Kept>& kept, const float (&totals)[Epilogue::reductions]) {
  float sums[Epilogue::reductions] = {};
  for (std::size_t v = 0; v < epilogues.size(); ++v) {
    float partial[Epilogue::reductions] = {};
    epilogues[v].template apply<pass>(row, static_cast<int>(v) * 8, values[v], operands[v], kept[v], totals,
                                      partial);
    for (int i = 0; i < Epilogue::reductions; ++i) sums[i] += partial[i];
  }
  if constexpr (pass + 1 < Epilogue::passes)
    run_passes<pass + 1>(epilogues, row, values, operands, kept, sums);
}

template <class Config, class Epilogue>
void row_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
  wait_for_previous_kernel();
  launch_next_kernel();
  constexpr int kVectors = Config::n / 8;
  for (unsigned tile = blockIdx.x * blockDim.x + threadIdx.x; tile < gridDim.x;
       tile += gridDim.x * blockDim.x) {
    std::vector<Epilogue> epilogues(kVectors, epilogue);
    for (int v = 0; v < kVectors; ++v) {
      epilogues[v].begin(v * 8);
      if constexpr (Epilogue::sums > 0) {
        for (auto& sums : epilogues[v].sum) {
          for (float& sum : sums) sum = 0.0f;
        }
      }
    }
    const std::int64_t first = tile * std::int64_t{Config::rows};
    for (std::int64_t row = first; row < min(first + Config::rows, rows); ++row) {
      std::vector<typename Epilogue::Operands> operands;
      std::vector<Vector<typename Config::Storage, 8>> values;
      for (int v = 0; v < kVectors; ++v) {
        operands.push_back(epilogues[v].load(row, v * 8));
        values.push_back(plain_matmuls<Config>(a, b, row, v * 8));
      }
      std::vector<typename Epilogue::Kept> kept(kVectors);
      const float none[Epilogue::reductions] = {};
      run_passes<0>(epilogues, row, values, operands, kept, none);
    }
    if constexpr (Epilogue::sums > 0) {
      for (int s = 0; s < Epilogue::sums; ++s) {
        for (int c = 0; c < Config::n; ++c)
          epilogue.partials[s][tile * std::int64_t{Epilogue::sums * Config::n} + c] =
              epilogues[c / 8].sum[s][c % 8];
      }
    }
  }
}

}  // namespace hydrac::cuda
