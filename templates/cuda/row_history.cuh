// The newest rows of sequences that are generated, for what reads those of earlier tokens.
#pragma once
#include <cstdint>

#include "cuda/attention/arguments.h"
#include "cuda/history_geometry.h"
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// A history is dense [S,rows,heads,width]: a ring for each sequence, in which the row of the token at
// position p is at p % rows. `batch`: prompts, or sequences with a new token. A thread moves one access of
// one row.
template <typename Element, int batch_, int rows_, int heads_, int width_>
struct HistoryShape {
  using T = Element;
  static constexpr int batch = batch_, rows = rows_, heads = heads_, width = width_;
  static constexpr int access = history_access(width, sizeof(T)), vectors = width / access;
  static constexpr int row = heads * width;  // elements
};

// A thread's move: access `column` of a head, `age` tokens before the newest.
template <typename Shape>
struct HistoryWork {
  int batch, age, head, column;
  bool exists;

  __device__ HistoryWork() {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kHistoryThreads + threadIdx.x;
    exists = i < std::int64_t{Shape::batch} * Shape::rows * Shape::heads * Shape::vectors;
    column = static_cast<int>(i % Shape::vectors) * Shape::access;
    head = static_cast<int>(i / Shape::vectors % Shape::heads);
    age = static_cast<int>(i / Shape::vectors / Shape::heads % Shape::rows);
    batch = static_cast<int>(i / Shape::vectors / Shape::heads / Shape::rows);
  }

  // In a dense tensor [..,rows,heads,width].
  __device__ std::int64_t at(int sequence, int history_row) const {
    return (static_cast<std::int64_t>(sequence) * Shape::rows + history_row) * Shape::row +
           head * Shape::width + column;
  }
};

// Stores the last rows of prompts x [A,T,heads,width], up to token ends[a], in sequences[a]; nothing for a
// negative sequence.
template <typename Shape, typename T = typename Shape::T>
__device__ void history_append(Heads<const T> x, const std::int32_t* sequences, const std::int32_t* ends,
                               T* history) {
  const HistoryWork<Shape> work;
  if (!work.exists) return;
  const int sequence = sequences[work.batch], token = ends[work.batch] - work.age;
  if (sequence < 0 || token < 0) return;
  store(history + work.at(sequence, token % Shape::rows),
        load<Shape::access>(x.at(work.batch, token, work.head) + work.column));
}

// Stores x [S,1,heads,width], one token of each sequence at positions[s], in the history. `window`, dense
// [S,rows,heads,width], gets that row last, after those of the earlier tokens, with zeros where there are
// none. No thread writes a row that others read: the positions of a window are at different places.
template <typename Shape, typename T = typename Shape::T>
__device__ void history_window(Heads<const T> x, const std::int32_t* positions, T* history, T* window) {
  const HistoryWork<Shape> work;
  if (!work.exists) return;
  const int position = positions[work.batch] - work.age;
  Vector<T, Shape::access> part{};
  if (work.age == 0) {
    part = load<Shape::access>(x.at(work.batch, 0, work.head) + work.column);
    store(history + work.at(work.batch, position % Shape::rows), part);
  } else if (position >= 0) {
    part = load<Shape::access>(history + work.at(work.batch, position % Shape::rows));
  }
  store(window + work.at(work.batch, Shape::rows - 1 - work.age), part);
}

}  // namespace hydrac::cuda
