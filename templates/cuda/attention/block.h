// Launch of a block of threads of an attention kernel, and its tiles in shared memory: the planner, kernels
// and launches share it. Plain C++; no CUDA.
#pragma once
#include "cuda/attention/arguments.h"

namespace hydrac {

struct AttentionBlock {
  int rows;  // queries or keys that it owns
  int threads;
  int shared_bytes;  // dynamic
};

// Places are bytes from the beginning of shared memory, where the tile of queries lies, or in key_gradients
// that of keys. `stages` tiles of each tensor that is streamed lie behind each other.
struct ForwardPlaces {
  int keys, values;
  int bytes;  // of all
};

HYDRAC_FN constexpr ForwardPlaces forward_places(int rows, int columns, int stages, int row_bytes) {
  const int keys = rows * row_bytes, values = keys + stages * columns * row_bytes;
  return {keys, values, values + stages * columns * row_bytes};
}

struct QueryGradientPlaces {
  int d_outs, keys, values, terms;
  int bytes;
};

HYDRAC_FN constexpr QueryGradientPlaces query_gradient_places(int rows, int columns, int stages,
                                                              int row_bytes) {
  const int d_outs = rows * row_bytes, keys = 2 * d_outs, values = keys + stages * columns * row_bytes,
            terms = values + stages * columns * row_bytes;
  return {d_outs, keys, values, terms, terms + rows * static_cast<int>(sizeof(QueryTerms))};
}

struct KeyGradientPlaces {
  int values, queries, d_outs, terms;
  int bytes;
};

HYDRAC_FN constexpr KeyGradientPlaces key_gradient_places(int rows, int columns, int stages, int row_bytes) {
  const int values = rows * row_bytes, queries = 2 * values, d_outs = queries + stages * columns * row_bytes,
            terms = d_outs + stages * columns * row_bytes;
  return {values, queries, d_outs, terms, terms + stages * columns * static_cast<int>(sizeof(QueryTerms))};
}

}  // namespace hydrac
