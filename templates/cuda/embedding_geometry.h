// How the embedding's gradient is launched: constexpr functions that the compiler calls to plan launches and
// memory, and that the kernels of embedding_backward.cuh are built from. Plain C++; no CUDA.
#pragma once
#include <cstdint>

namespace hydrac::cuda {

// d_table[ids[r], :] += d_y[r, :] for `tokens` rows r of `width` columns, into `vocabulary` rows. Without
// `accumulate` d_table is overwritten, and rows without tokens become zero.
struct EmbeddingGradient {
  int tokens;
  int width;
  int vocabulary;
  int d_y_bytes;    // of an element: 4 or 2
  int table_bytes;  // of an element of d_table: 4 or 2
  bool accumulate;
};

struct EmbeddingLaunch {
  std::int64_t grid;  // in x; y and z are 1
  int threads;
  int blocks_per_sm;  // for __launch_bounds__: what registers are limited for
};

// The tokens, sorted by id, are cut into chunks. `lanes` threads sum a chunk's rows, each `columns`
// neighbouring columns in accesses of up to 16 bytes. A block holds `groups` chunks side by side; `tiles`
// blocks share wide rows.
struct EmbeddingTile {
  int columns;
  int lanes;
  int tiles;
  int groups;
  int chunk;   // tokens
  int chunks;  // in all

  constexpr int threads() const { return lanes * groups; }
  constexpr std::int64_t blocks() const { return std::int64_t{(chunks + groups - 1) / groups} * tiles; }
};

constexpr EmbeddingTile embedding_tile(const EmbeddingGradient& g) {
  EmbeddingTile tile{};
  // Enough chunks to fill a large GPU, long enough that partial sums are few compared with what is read.
  tile.chunk = 16;
  while (tile.chunk < 128 && g.tokens / tile.chunk > 1024) tile.chunk *= 2;
  tile.chunks = (g.tokens + tile.chunk - 1) / tile.chunk;

  tile.columns = 16 / (g.d_y_bytes > g.table_bytes ? g.d_y_bytes : g.table_bytes);
  while (g.width % tile.columns != 0) tile.columns /= 2;
  const int vectors = g.width / tile.columns;
  tile.tiles = (vectors + 255) / 256;
  tile.lanes = (vectors + tile.tiles - 1) / tile.tiles;
  // A block's chunks are staged in shared memory.
  const int by_threads = 256 / tile.lanes, by_memory = 2048 / tile.chunk;
  tile.groups = by_threads < by_memory ? by_threads : by_memory;
  return tile;
}

// Without `accumulate` further blocks clear the rows without tokens, so many each.
constexpr int kEmbeddingClearedRows = 64;

// embedding_gradient_runs
constexpr EmbeddingLaunch embedding_runs_launch(const EmbeddingGradient& g) {
  const EmbeddingTile tile = embedding_tile(g);
  const int clearing = g.accumulate ? 0 : (g.vocabulary + kEmbeddingClearedRows - 1) / kEmbeddingClearedRows;
  // f32 rows on their way take twice the registers.
  const int resident = ((g.d_y_bytes == 4 ? 512 : 768) + tile.threads() - 1) / tile.threads();
  return {tile.blocks() + clearing, tile.threads(), resident < 16 ? resident : 16};
}

// The second kernel checks this many chunks a block for runs of one id that continue in the next chunk. A
// warp's lanes are columns; the warps divide the partial sums.
constexpr int kEmbeddingBorderChunks = 4;
constexpr int kEmbeddingBorderWarps = 8;

constexpr int embedding_border_tiles(const EmbeddingGradient& g) {
  const int columns = 32 * embedding_tile(g).columns;
  return (g.width + columns - 1) / columns;
}
constexpr int embedding_border_steps(const EmbeddingGradient& g) {
  return (embedding_tile(g).chunks + kEmbeddingBorderChunks - 1) / kEmbeddingBorderChunks;
}

// embedding_gradient_borders
constexpr EmbeddingLaunch embedding_borders_launch(const EmbeddingGradient& g) {
  return {std::int64_t{embedding_border_steps(g)} * embedding_border_tiles(g), 32 * kEmbeddingBorderWarps, 4};
}

// Workspace from the first kernel to the second; aligned to 16 bytes. For each chunk two partial sums (a run
// that came from the chunk before, and one that goes on in the next) and its first and last id.
constexpr std::int64_t embedding_workspace_bytes(const EmbeddingGradient& g) {
  return std::int64_t{4} * 2 * embedding_tile(g).chunks * (g.width + 1);
}

}  // namespace hydrac::cuda
