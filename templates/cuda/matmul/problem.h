// Matmuls as the compiler asks for them, and what a launch needs. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "cuda/chip.h"
#include "cuda/matmul/tile.h"

namespace hydrac::cuda {

// c [m,n] = a [m,k] . b for 16-bit storage, handed to an epilogue eight columns at a time.
struct MatmulProblem {
  Chip chip;
  bool is_bf16;  // or f16
  // The columns of k are contiguous in a. In b they are if it is [n,k], the weight of y = x w^T; the other
  // layout is [k,n], of d_x = d_y w.
  bool b_transposed;
  std::int64_t m, n, k;
  bool paired;  // the epilogue takes columns c and c + n / 2 together
  int sums;     // of the epilogue's columns, each over all rows
  // Above 0: c = a . b + tail_a . tail_b with tail_a [m,tail_k] and tail_b laid out as b.
  std::int64_t tail_k = 0;
  // Above 0: b is that many matrices, one below the other, and the rows of a are sorted by expert: those of
  // one begin at a multiple of kExpertRows, with zeros behind its last. m is the most that there may be.
  std::int64_t experts = 0;
};

inline constexpr int kExpertRows = 128;

struct MatmulLaunch {
  unsigned grid;  // in x; y and z are 1; a multiple of `cluster`
  int threads;
  int cluster;                 // blocks in x
  std::uint64_t shared_bytes;  // dynamic; over 48 KiB needs the function attribute
};

// One operand for cuTensorMapEncodeTiled: a matrix of 16-bit elements, 128-byte swizzled, zeros outside. The
// first dimension is the contiguous one.
struct MatmulMap {
  std::int64_t size[2];  // elements
  int box[2];            // elements that one copy moves
};

HYDRAC_FN constexpr std::int64_t tiles_of(std::int64_t size, std::int64_t tile) {
  return (size + tile - 1) / tile;
}

}  // namespace hydrac::cuda
