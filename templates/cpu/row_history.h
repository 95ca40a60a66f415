// The newest rows of sequences that are generated, for what reads those of earlier tokens.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/attention_types.h"

namespace hydrac::cpu {

// A history is dense [S,rows,heads,width]: of each sequence the row of the token at position p is at
// p % rows. A row is heads * width floats. `batch`: prompts, or sequences that have a new token.
struct HistoryShape {
  std::int64_t batch, rows, heads, width;

  constexpr std::int64_t row() const { return heads * width; }
};

inline void copy_history_row(const HistoryShape& shape, ConstHeads x, std::int64_t batch, std::int64_t token,
                             float* to) {
  for (std::int64_t head = 0; head < shape.heads; ++head)
    std::copy_n(x.at(batch, token, head), shape.width, to + head * shape.width);
}

// The last rows of prompts x [A,T,heads,width], up to token ends[a], become those of sequences[a]; nothing is
// kept of a negative sequence.
inline void history_append(const HistoryShape& shape, ConstHeads x, const std::int32_t* sequences,
                           const std::int32_t* ends, float* history) {
  for (std::int64_t a = 0; a < shape.batch; ++a) {
    if (sequences[a] < 0) continue;
    float* kept = history + sequences[a] * shape.rows * shape.row();
    for (std::int64_t t = std::max<std::int64_t>(ends[a] - shape.rows + 1, 0); t <= ends[a]; ++t)
      copy_history_row(shape, x, a, t, kept + t % shape.rows * shape.row());
  }
}

// x [S,1,heads,width], of a token of each sequence, number positions[s], goes into the history. `window`,
// dense [S,rows,heads,width]: that row is the last, behind those of the tokens before it, zeros where there
// are none.
inline void history_window(const HistoryShape& shape, ConstHeads x, const std::int32_t* positions,
                           float* history, float* window) {
  constexpr std::int64_t worth_threads = 1 << 16;  // floats: waking them takes longer than few rows
#pragma omp parallel for schedule(static) if (shape.batch * shape.rows * shape.row() > worth_threads)
  for (std::int64_t s = 0; s < shape.batch; ++s) {
    float *kept = history + s * shape.rows * shape.row(), *to = window + s * shape.rows * shape.row();
    copy_history_row(shape, x, s, 0, kept + positions[s] % shape.rows * shape.row());
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      const std::int64_t position = positions[s] - (shape.rows - 1 - i);
      if (position < 0)
        std::fill_n(to + i * shape.row(), shape.row(), 0.0f);
      else
        std::copy_n(kept + position % shape.rows * shape.row(), shape.row(), to + i * shape.row());
    }
  }
}

}  // namespace hydrac::cpu
