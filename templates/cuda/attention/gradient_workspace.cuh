// Device memory through which the blocks of threads of attention_gradients exchange results.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/gradient_geometry.h"
#include "cuda/types.cuh"

namespace hydrac {

// Prepared by attention_query_terms.
struct GradientWorkspace {
  float* sums;           // d_q without its scale, [B,H,tiles] tiles, each in the order of threads' registers
  QueryTerms* terms;     // [B,H,T]
  unsigned* turns;       // [B,H,tiles]: how many pieces have added to the tile
  unsigned* next_piece;  // how many are taken

  __device__ __forceinline__ GradientWorkspace(const AttentionShape& shape, void* memory) {
    const std::int64_t rows = static_cast<std::int64_t>(shape.batch) * shape.heads;
    const std::int64_t tiles = rows * gradient_query_tiles(shape.tokens);
    sums = static_cast<float*>(memory);
    terms = reinterpret_cast<QueryTerms*>(sums + tiles * (kGradientColumns * kGradientDim));
    turns = reinterpret_cast<unsigned*>(terms + rows * shape.tokens);
    next_piece = turns + tiles;
  }
};

// How many queries of a tile exist: it may be none.
__device__ __forceinline__ int valid_queries(int tokens, int first) {
  return tokens % kGradientRows == 0 ? kGradientColumns : max(0, min(tokens - first, kGradientColumns));
}

}  // namespace hydrac
