// A warpgroup's epilogue, on the registers that hold the sums. What it writes passes through shared memory, a
// piece of the tile's rows at a time, moved by the copy engine, so that no thread waits for memory to take
// it.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/stationary_matmul/multiply.cuh"
#include "cuda/stationary_matmul/shared.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// A thread has eight elements at a time: of each of these columns two, one below the other.
struct ElementColumns {
  int at[4];
};

// What a row has in the columns of the thread's elements.
template <typename T>
__device__ __forceinline__ Vector<T, 8> load_elements(const T* row, const ElementColumns& columns) {
  Vector<T, 8> elements;
#pragma unroll
  for (int j = 0; j < 8; ++j) elements.at[j] = row[columns.at[j / 2]];
  return elements;
}

// A piece takes the slot of the one `slots` before it, which is free once its stores have been read. One
// thread starts all of them.
template <class Config, class Epilogue>
class StationaryElements {
 public:
  __device__ __forceinline__ StationaryElements(const StationaryShared<Config>& shared, int warpgroup,
                                                int column, Epilogue& epilogue)
      : shared_(shared), warpgroup_(warpgroup), column_(column), epilogue_(epilogue) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = warp * 2 + lane / 8 % 2;
    matrix_ = lane / 16 * kHalfBytes + lane % 8 * 128 + (chunk ^ lane % 8) * 16;
    ElementColumns columns;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own = column + i / 2 * Config::half_columns + warp * 16 + i % 2 * 8 + lane / 4;
      columns.at[i] = own < Config::n ? own : 0;
    }
    epilogue_.begin(columns);
  }

  // A tile whose first row is `row` and whose sums these are. One half of the rows after the other, because
  // the compiler would compute all of the tile before it stores any of it, which takes more registers than
  // there are.
  __device__ __forceinline__ void run(StationarySums<Config>& sums, int row) {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int piece = 0; piece < StationaryTile::pieces / 2; ++piece) {
        const int slot = piece % Config::tile.slots;
#pragma unroll
        for (int i = 0; i < kFragments; ++i)
          run_fragment(sums.rounded(piece * kFragments + i), shared_.piece(warpgroup_, slot, 0) + i * 1024);
        ptx::fence_shared_memory();
        // The next piece's slot must be free.
        if (leads()) wait_for_stores<Config::tile.slots - 2>();
        barrier::block_sync<128>(1 + warpgroup_);
        if (leads()) write(slot, row);
        row += StationaryTile::piece_rows;
      }
      sums.move_up();
    }
  }

  // After the last tile: shared memory must last until it has been read.
  __device__ __forceinline__ void end() const {
    if (leads()) wait_for_stores<0>();
  }

 private:
  struct Matrices {
    struct {
      std::uint32_t words[4];  // of each matrix: a word for each of the thread's columns
    } of[Epilogue::outputs];
  };
  static constexpr int kHalfBytes = StationaryTile::piece_bytes / 2;
  static constexpr int kFragments = StationaryTile::piece_rows / 8;  // of a piece
  static_assert(Config::tile.matrices == Epilogue::outputs && Config::tile.slots >= 2 &&
                StationaryTile::pieces / 2 % Config::tile.slots == 0);

  // The thread that starts copies.
  __device__ __forceinline__ bool leads() const {
    return threadIdx.x % 128 == 0;
  }

  // Eight rows of the tile, which lie at `at` in their slot.
  __device__ __forceinline__ void run_fragment(const Vector<typename Config::Storage, 8>& matmuls,
                                               std::uint32_t at) {
    const auto out = __builtin_bit_cast(Matrices, epilogue_(matmuls));
#pragma unroll
    for (int i = 0; i < Epilogue::outputs; ++i)
      ptx::stmatrix_transposed(at + i * StationaryTile::piece_bytes + matrix_, out.of[i].words);
  }

  // By the leader: starts the stores of a piece.
  __device__ __forceinline__ void write(int slot, int row) const {
#pragma unroll
    for (int i = 0; i < Epilogue::outputs; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_box(*epilogue_.matrices[i], column_ + half * Config::half_columns, row,
                  shared_.piece(warpgroup_, slot, i) + half * kHalfBytes);
    }
    commit_stores();
  }

  const StationaryShared<Config> shared_;
  const int warpgroup_, column_;
  Epilogue& epilogue_;
  std::uint32_t matrix_;  // where in eight rows of a slot the thread's address for stmatrix is
};

}  // namespace hydrac::cuda
