// The contract of templates/cuda/matmul/matmul.cuh in plain loops: what the emulator, which has neither
// copy engine nor tensor cores, runs instead of it. A tensor map's first word is the matrix's address.
#pragma once
#include <vector>

#include "cuda/matmul/config.cuh"
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_map.h"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// What a kernel multiplies: a and b, or two such pairs.
template <class Config>
struct PlainOperands {
  const TensorMap &a, &b, &tail_a, &tail_b;

  // The matmuls of a row with eight columns from `column` on, summed in float32 and rounded to the storage
  // type.
  Vector<typename Config::Storage, 8> matmuls(std::int64_t row, int column) const {
    Vector<typename Config::Storage, 8> values;
    for (int j = 0; j < 8; ++j) {
      float sum = 0.0f;
      add<Config::k>(sum, a, b, row, column + j);
      if constexpr (Config::has_tail) add<Config::tail_k>(sum, tail_a, tail_b, row, column + j);
      values.at[j] = from_float<typename Config::Storage>(sum);
    }
    return values;
  }

 private:
  template <int k>
  static void add(float& sum, const TensorMap& map_a, const TensorMap& map_b, std::int64_t row, int column) {
    const auto* left = reinterpret_cast<const typename Config::Storage*>(map_a.words[0]);
    const auto* right = reinterpret_cast<const typename Config::Storage*>(map_b.words[0]);
    for (int i = 0; i < k; ++i) {
      const int at = Config::b_transposed ? column * k + i : i * Config::n + column;
      sum += to_float(left[row * k + i]) * to_float(right[at]);
    }
  }
};

// Each thread takes eight columns of a tile of the rows from `begin` on, as in the template; which ones is
// any thread's own affair.
template <class Config, class Epilogue>
void matmul_tiles(const PlainOperands<Config>& operands, std::int64_t begin, std::int64_t rows,
                  Epilogue& epilogue) {
  constexpr int kVectors = Config::columns / 8, kRows = Config::tile.rows;
  const std::int64_t tiles = (rows - begin + kRows - 1) / kRows * kVectors;
  for (std::int64_t tile = blockIdx.x * blockDim.x + threadIdx.x; tile < tiles;
       tile += gridDim.x * blockDim.x) {
    const int column = static_cast<int>(tile % kVectors) * 8;
    const std::int64_t first = begin + tile / kVectors * kRows, last = min(first + kRows, rows);
    epilogue.begin(column);
    if constexpr (Epilogue::sums > 0) {
      for (auto& sums : epilogue.sum) {
        for (float& sum : sums) sum = 0.0f;
      }
    }
    for (std::int64_t row = first; row < last; ++row) {
      const typename Epilogue::Operands in = epilogue.load(row, column);
      const auto values = operands.matmuls(row, column);
      if constexpr (Config::paired) {
        epilogue(row, column, values, operands.matmuls(row, column + Config::columns), in);
      } else {
        epilogue(row, column, values, in);
      }
    }
    if constexpr (Epilogue::sums > 0) {
      for (int s = 0; s < Epilogue::sums; ++s) {
        for (int j = 0; j < 8; ++j)
          epilogue.partials[s][tile / kVectors * Config::columns + column + j] = epilogue.sum[s][j];
      }
    }
  }
}

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

// A thread has all columns of the rows of a block.
template <class Config, class Epilogue>
void matmul_whole_rows(const PlainOperands<Config>& operands, std::int64_t rows, Epilogue& epilogue) {
  constexpr int kVectors = Config::n / 8, kRows = Config::tile.rows;
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
    const std::int64_t first = tile * std::int64_t{kRows};
    for (std::int64_t row = first; row < min(first + kRows, rows); ++row) {
      std::vector<typename Epilogue::Operands> loaded;
      std::vector<Vector<typename Config::Storage, 8>> values;
      for (int v = 0; v < kVectors; ++v) {
        loaded.push_back(epilogues[v].load(row, v * 8));
        values.push_back(operands.matmuls(row, v * 8));
      }
      std::vector<typename Epilogue::Kept> kept(kVectors);
      const float none[Epilogue::reductions] = {};
      run_passes<0>(epilogues, row, values, loaded, kept, none);
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

template <class Config, class Epilogue>
void matmul(const TensorMap& a, const TensorMap& b, const TensorMap& tail_a, const TensorMap& tail_b,
            std::int64_t rows, Epilogue& epilogue) {
  wait_for_previous_kernel();
  launch_next_kernel();
  const PlainOperands<Config> operands{a, b, tail_a, tail_b};
  if constexpr (Config::tile.schedule == MatmulSchedule::whole_rows) {
    matmul_whole_rows<Config>(operands, rows, epilogue);
  } else {
    matmul_tiles<Config>(operands, 0, rows, epilogue);
  }
}

template <class Config, class Epilogue>
void matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
  static_assert(!Config::has_tail && Config::experts == 0);
  matmul<Config>(a, b, a, b, rows, epilogue);
}

template <class Config, class Epilogue>
void grouped_matmul(const TensorMap& a, const TensorMap& b, const int* offsets, Epilogue& epilogue) {
  wait_for_previous_kernel();
  launch_next_kernel();
  for (int e = 0; e < Config::experts; ++e) {
    TensorMap own = b;
    own.words[0] += static_cast<std::uint64_t>(e) * Config::n * Config::k * sizeof(typename Config::Storage);
    matmul_tiles<Config>(PlainOperands<Config>{a, own, a, own}, offsets[e], offsets[e + 1], epilogue);
  }
}

}  // namespace hydrac::cuda
