// The embedding's gradient: a scatter whose sums have a fixed order and no atomics, as fast for 65 ids as for
// 50,000. The tokens come sorted by id (`order`, runtime/cuda/token_order.h) and are cut into chunks of equal
// size, so that no distribution of ids unbalances the blocks. Runs of one id inside a chunk are summed in
// registers and written at once; those that cross a border leave partial sums, which the second kernel adds.
#pragma once
#include <cstdint>

#include "cuda/embedding_geometry.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// The geometry as constants of a kernel.
template <EmbeddingGradient g>
struct EmbeddingConfig {
  static constexpr EmbeddingTile tile = embedding_tile(g);
  static constexpr int threads = tile.threads();
  static constexpr int chunk_blocks = static_cast<int>(tile.blocks());
  static constexpr int border_tiles = embedding_border_tiles(g);
  static constexpr int border_steps = embedding_border_steps(g);
};

// `columns` neighbouring numbers in registers, and their way to memory of type U.
template <int columns>
struct ColumnSums {
  float at[columns];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < columns; ++i) at[i] = 0.0f;
  }

  template <typename T>
  __device__ void add(const Vector<T, columns>& values) {
#pragma unroll
    for (int i = 0; i < columns; ++i) at[i] += to_float(values.at[i]);
  }

  // In accesses of up to 16 bytes.
  template <typename U>
  static constexpr int access = columns * sizeof(U) <= 16 ? columns : 16 / sizeof(U);

  template <typename U>
  __device__ void add_from(const U* from) {
#pragma unroll
    for (int i = 0; i < columns; i += access<U>) {
      const Vector<U, access<U>> values = load<access<U>>(from + i);
#pragma unroll
      for (int j = 0; j < access<U>; ++j) at[i + j] += to_float(values.at[j]);
    }
  }

  template <typename U>
  __device__ void store_to(U* to) const {
#pragma unroll
    for (int i = 0; i < columns; i += access<U>) {
      Vector<U, access<U>> values;
#pragma unroll
      for (int j = 0; j < access<U>; ++j) values.at[j] = from_float<U>(at[i + j]);
      store(to + i, values);
    }
  }
};

// The workspace.
template <EmbeddingGradient g>
struct EmbeddingPartials {
  static constexpr int chunks = EmbeddingConfig<g>::tile.chunks;
  float* workspace;

  // float32 [width]: sums of the run that continues from the previous chunk, and of the one that begins here
  // and continues in the next.
  __device__ float* head(int chunk) const { return workspace + static_cast<std::int64_t>(chunk) * g.width; }
  __device__ float* tail(int chunk) const { return head(chunks + chunk); }
  __device__ int* first_ids() const { return reinterpret_cast<int*>(head(2 * chunks)); }
  __device__ int* last_ids() const { return first_ids() + chunks; }
};

template <typename U, EmbeddingGradient g, int columns>
__device__ void finish_embedding_row(ColumnSums<columns>& sums, U* __restrict__ row) {
  if constexpr (g.accumulate) sums.add_from(row);
  sums.store_to(row);
}

// Blocks behind those of the chunks: zeros for the rows that no token names.
template <typename U, EmbeddingGradient g>
__device__ void clear_absent_embedding_rows(const int* ids, const int* order, int block,
                                            U* __restrict__ d_table) {
  constexpr EmbeddingTile tile = EmbeddingConfig<g>::tile;
  __shared__ bool absent[kEmbeddingClearedRows];
  const int first = block * kEmbeddingClearedRows;
  const int rows =
      g.vocabulary - first < kEmbeddingClearedRows ? g.vocabulary - first : kEmbeddingClearedRows;
  for (int r = threadIdx.x; r < rows; r += EmbeddingConfig<g>::threads) {
    int begin = 0, end = g.tokens;  // the first position whose id is not smaller lies in [begin, end]
    while (begin < end) {
      const int middle = begin + (end - begin) / 2;
      if (ids[order[middle]] < first + r) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    absent[r] = begin == g.tokens || ids[order[begin]] != first + r;
  }
  __syncthreads();  // `absent` is there for all rows
  constexpr int vectors = g.width / tile.columns;
  ColumnSums<tile.columns> zeros;
  zeros.clear();
  U* const to = d_table + static_cast<std::int64_t>(first) * g.width;
  for (int i = threadIdx.x; i < rows * vectors; i += EmbeddingConfig<g>::threads) {
    if (absent[i / vectors]) zeros.store_to(to + static_cast<std::int64_t>(i) * tile.columns);
  }
}

// ids int32 [tokens] in [0, vocabulary), order int32 [tokens]: positions sorted by id, ascending for equal
// ids. d_y T [tokens, width], d_table U [vocabulary, width]; dense, aligned to 16 bytes.
// embedding_runs_launch(g) gives the launch; embedding_gradient_borders follows.
template <typename T, typename U, EmbeddingGradient g>
__device__ void embedding_gradient_runs(const int* ids, const int* order, const T* d_y,
                                        U* __restrict__ d_table, float* __restrict__ workspace) {
  static_assert(sizeof(T) == g.d_y_bytes && sizeof(U) == g.table_bytes);
  using Config = EmbeddingConfig<g>;
  constexpr EmbeddingTile tile = Config::tile;
  constexpr int kAtOnce = 8;  // rows on their way
  const int block = static_cast<int>(blockIdx.x);
  if constexpr (!g.accumulate) {
    if (block >= Config::chunk_blocks) {
      clear_absent_embedding_rows<U, g>(ids, order, block - Config::chunk_blocks, d_table);
      return;
    }
  }

  // Each chunk's rows and ids, with the ids before and behind it; -1 where there is none.
  __shared__ int rows[tile.groups][tile.chunk + 2];
  __shared__ int tokens[tile.groups][tile.chunk + 2];
  const int first_chunk = block / tile.tiles * tile.groups;
  for (int i = threadIdx.x; i < tile.groups * (tile.chunk + 2); i += Config::threads) {
    const int group = i / (tile.chunk + 2), at = i % (tile.chunk + 2);
    const std::int64_t position = static_cast<std::int64_t>(first_chunk + group) * tile.chunk + at - 1;
    const bool exists = position >= 0 && position < g.tokens;
    rows[group][at] = exists ? order[position] : 0;
    tokens[group][at] = exists ? ids[rows[group][at]] : -1;
  }
  __syncthreads();  // `rows` and `tokens` of all chunks are there

  const int group = threadIdx.x / tile.lanes, lane = threadIdx.x % tile.lanes;
  const int chunk = first_chunk + group;
  const int column = (block % tile.tiles * tile.lanes + lane) * tile.columns;
  if (chunk >= tile.chunks || column >= g.width) return;
  const int left = g.tokens - chunk * tile.chunk;
  const int end = 1 + (left < tile.chunk ? left : tile.chunk);
  const EmbeddingPartials<g> partials{workspace};

  int token = tokens[group][1];
  bool from_before = tokens[group][0] == token;
  ColumnSums<tile.columns> sums;
  sums.clear();
  const auto finish = [&](bool goes_on) {
    if (from_before) {
      sums.store_to(partials.head(chunk) + column);
    } else if (goes_on) {
      sums.store_to(partials.tail(chunk) + column);
    } else {
      finish_embedding_row<U, g>(sums, d_table + static_cast<std::int64_t>(token) * g.width + column);
    }
  };

#pragma unroll 1
  for (int begin = 1; begin < end; begin += kAtOnce) {
    Vector<T, tile.columns> values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (begin + i < end)
        values[i] =
            load<tile.columns>(d_y + static_cast<std::int64_t>(rows[group][begin + i]) * g.width + column);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (begin + i >= end) break;
      const int next = tokens[group][begin + i];
      if (next != token) {
        finish(false);
        token = next;
        from_before = false;
        sums.clear();
      }
      sums.add(values[i]);
    }
  }
  finish(tokens[group][end] == token);
  if (column == 0) {
    partials.first_ids()[chunk] = tokens[group][1];
    partials.last_ids()[chunk] = token;
  }
}

// Adds the partial sums of the runs that cross borders of chunks. The block in which a run begins owns it:
// each warp sums every eighth part of it, then the warps' sums are added in order.
template <typename U, EmbeddingGradient g>
__device__ void embedding_gradient_borders(float* workspace, U* __restrict__ d_table) {
  constexpr EmbeddingTile tile = EmbeddingConfig<g>::tile;
  constexpr int kWarps = kEmbeddingBorderWarps, kThreads = 32 * kWarps;
  constexpr int tiles = EmbeddingConfig<g>::border_tiles, steps = EmbeddingConfig<g>::border_steps;
  __shared__ ColumnSums<tile.columns> shared_sums[kWarps][32];
  const EmbeddingPartials<g> partials{workspace};
  const int* const first = partials.first_ids();
  const int* const last = partials.last_ids();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = (blockIdx.x % tiles * 32 + lane) * tile.columns;

  for (int chunk = blockIdx.x / tiles; chunk + 1 < tile.chunks; chunk += steps) {
    const int token = last[chunk];
    const bool goes_on = first[chunk + 1] == token;
    const bool began_before = chunk > 0 && first[chunk] == token && last[chunk - 1] == token;
    if (!goes_on || began_before) continue;  // the same for the whole block

    int further = 0;  // chunks behind this one that begin with the run
    for (int from = chunk + 1, found = kThreads; found == kThreads; from += kThreads) {
      const int mine = from + static_cast<int>(threadIdx.x);
      found = __syncthreads_count(mine < tile.chunks && first[mine] == token);
      further += found;
    }

    ColumnSums<tile.columns> sums;
    sums.clear();
    if (column < g.width) {
      if (warp == 0) sums.add_from(partials.tail(chunk) + column);
#pragma unroll 4
      for (int i = warp == 0 ? kWarps : warp; i <= further; i += kWarps)
        sums.add_from(partials.head(chunk + i) + column);
    }
    shared_sums[warp][lane] = sums;
    __syncthreads();  // all warps' sums are there
    if (warp == 0 && column < g.width) {
#pragma unroll
      for (int i = 1; i < kWarps; ++i) sums.add_from(shared_sums[i][lane].at);
      finish_embedding_row<U, g>(sums, d_table + static_cast<std::int64_t>(token) * g.width + column);
    }
  }
}

}  // namespace hydrac::cuda
