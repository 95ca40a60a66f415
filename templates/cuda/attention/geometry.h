// Which attention kernels serve a problem and how they are launched: constexpr functions that the compiler
// calls to plan launches and that kernels call to size their tiles, so that the two cannot disagree. Plain
// C++; no CUDA.
#pragma once
#include <cstdint>

#include "cuda/attention/block.h"
#include "cuda/attention/fp8_tiles.h"
#include "cuda/attention/gradient_geometry.h"
#include "cuda/chip.h"
#include "hydrac/math.h"

namespace hydrac::cuda {

enum class AttentionKernel {
  forward,          // out, lse
  query_gradients,  // d_q and the query terms; runs before key_gradients
  key_gradients,    // d_k, d_v
  query_terms,      // the query terms alone; runs before gradients
  gradients,        // d_q, d_k, d_v: attention_fuses_gradients() says whether instead of the two above
  head_gradients,   // d_q, d_k, d_v with no other kernel: attention_owns_heads() says whether
  fp8_operands,     // keys and values of 8 bits; runs before fp8_forward
  fp8_forward,      // out, lse with matmuls of 8 bits: attention_multiplies_fp8() says whether there is one
};

// Rows that a block owns, and rows of the other side that it takes at a time. 0: what attention_tile() takes
// by itself.
struct TileShape {
  int rows = 0, columns = 0;

  HYDRAC_FN constexpr bool is_given() const { return rows > 0; }
};

// The spec's wishes. With one of the gradients' the backward pass is the pair of kernels.
struct AttentionTiles {
  TileShape forward = {}, query_gradients = {}, key_gradients = {};

  HYDRAC_FN constexpr bool ask_for_pair() const {
    return query_gradients.is_given() || key_gradients.is_given();
  }
};

struct AttentionProblem {
  int capability;  // 10 * major + minor
  int element_bytes;
  bool is_bf16;
  bool has_dropout;
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  bool causal = true;        // the mask hides later keys
  bool has_softcap = false;  // the scores' derivative varies
  // A sequence holds several. The gradients are then the pair's: the kernels of Hopper that make all three at
  // once know one document a sequence.
  bool has_documents = false;
  int multiprocessors = kHopper.multiprocessors;  // that launches are planned for
  AttentionTiles tiles = {};
};

struct AttentionLaunch {
  unsigned grid;  // in x; y and z are 1
  int threads;
  int blocks_per_sm;
  std::uint64_t shared_bytes;  // dynamic; over 48 KiB needs the function attribute
};

HYDRAC_FN constexpr AttentionFamily attention_family(const AttentionProblem& p) {
  if (p.element_bytes != 2 || (p.is_bf16 && p.capability < 80)) return AttentionFamily::plain;
  // With dropout or softcap, head_dim 128 needs more registers than wgmma's sums leave.
  const bool is_simple = !p.has_dropout && !p.has_softcap;
  if (p.capability == 90 && (p.head_dim == 64 || (p.head_dim == 128 && is_simple))) {
    return AttentionFamily::hopper;
  }
  return AttentionFamily::mma;
}

HYDRAC_FN constexpr bool attention_supports(const AttentionProblem& p) {
  return p.capability >= 75 && p.head_dim >= 8 && p.head_dim <= 256 && p.head_dim % 8 == 0 && p.tokens > 0 &&
         p.batch > 0 && p.kv_heads > 0 && p.heads % p.kv_heads == 0 &&
         (p.element_bytes == 2 || p.element_bytes == 4);
}

// True if there is a forward pass with matmuls of 8 bits.
HYDRAC_FN constexpr bool attention_multiplies_fp8(const AttentionProblem& p) {
  return attention_family(p) == AttentionFamily::hopper && p.is_bf16 && !p.has_dropout && !p.has_softcap;
}

// Bytes of its workspace (Fp8Tiles).
HYDRAC_FN constexpr std::uint64_t attention_fp8_workspace(const AttentionProblem& p) {
  const std::int64_t tiles = p.batch * p.kv_heads * ((p.tokens + kFp8Columns - 1) / kFp8Columns);
  return static_cast<std::uint64_t>(tiles * Fp8Tiles{static_cast<int>(p.head_dim)}.tile_bytes());
}

// Places for tiles of d_s of 64 queries and 64 keys that a head of `tiles` tiles of 64 tokens takes. Four
// causal tiles have ten, but two are written so late that they take places of others.
HYDRAC_FN constexpr int head_score_tiles(int tiles, bool causal) {
  return !causal ? tiles * tiles : tiles == 4 ? 8 : tiles * (tiles + 1) / 2;
}

// True if head_gradients alone computes the backward pass: a head fits into shared memory, and no other head
// adds to its d_k and d_v. On an H200 it takes 0.6 to 0.75 of the pair's time (B64 H6 T256: 41 us of 67, with
// dropout 52 of 92; B32 H4 T64: 6.6 of 9.0). A few longer heads leave multiprocessors idle; there the pair's
// smaller blocks are faster (32 heads of 256: 12.8 us, not 15.8).
HYDRAC_FN constexpr bool attention_owns_heads(const AttentionProblem& p) {
  const bool fills = p.tokens <= 128 || p.batch * p.heads >= p.multiprocessors / 2;
  return attention_family(p) == AttentionFamily::hopper && p.head_dim == kGradientDim && !p.has_documents &&
         !p.tiles.ask_for_pair() && p.heads == p.kv_heads && p.tokens <= (p.causal ? 256 : 192) && fills;
}

// True if query_terms and gradients compute the backward pass, instead of query_gradients and key_gradients.
// Measured on an H200: without dropout the pair is as fast up to 256 tokens. Pieces should fill the chip.
HYDRAC_FN constexpr bool attention_fuses_gradients(const AttentionProblem& p) {
  if (attention_owns_heads(p) || p.has_documents || p.tiles.ask_for_pair()) return false;
  if (attention_family(p) != AttentionFamily::hopper || p.head_dim != kGradientDim) return false;
  return p.tokens >= (p.has_dropout ? 256 : 512) &&
         p.batch * p.kv_heads * ((p.tokens + kGradientRows - 1) / kGradientRows) >= p.multiprocessors;
}

namespace detail {

HYDRAC_FN constexpr std::uint64_t gradients_shared_bytes(const AttentionTile& tile) {
  constexpr std::uint64_t row = kGradientDim * 2;
  const std::uint64_t keys = 2 * 2 * tile.rows() * row, queries = 2u * tile.columns * row * tile.stages;
  const std::uint64_t d_scores = 4u * tile.columns * tile.rows() * 2,
                      sums = 2u * tile.columns * kGradientDim * 4;
  const std::uint64_t terms = 8u * tile.columns * tile.stages, barriers = 8u * (2 * tile.stages + 16 + 1);
  return keys + queries + d_scores + sums + terms + barriers;
}

// q, k, v and d_out of a head and of 64 tokens of the next one, their query terms, d_s, and barriers.
HYDRAC_FN constexpr std::uint64_t head_gradients_shared_bytes(int tiles, bool causal) {
  constexpr std::uint64_t tile = kGradientColumns * kGradientDim * 2;
  const int slots = tiles + 1;
  return (4 * slots + head_score_tiles(tiles, causal)) * tile + 8u * kGradientColumns * slots +
         8u * (3 * slots + 2 * tiles);
}

}  // namespace detail

HYDRAC_FN constexpr std::uint64_t attention_shared_bytes(const AttentionProblem& p, AttentionKernel kernel,
                                                         const AttentionTile& tile) {
  if (kernel == AttentionKernel::gradients) return detail::gradients_shared_bytes(tile);
  if (kernel == AttentionKernel::head_gradients)
    return detail::head_gradients_shared_bytes(tile.stages, p.causal);
  if (kernel == AttentionKernel::query_terms || kernel == AttentionKernel::fp8_operands) return 0;
  if (kernel == AttentionKernel::fp8_forward)
    return static_cast<std::uint64_t>(
        fp8_places(tile.rows(), tile.stages, static_cast<int>(p.head_dim)).bytes);
  const int row_bytes = attention_row_bytes(attention_family(p) == AttentionFamily::hopper,
                                            static_cast<int>(p.head_dim), p.element_bytes);
  const int rows = tile.rows(), columns = tile.columns, stages = tile.stages;
  const int bytes = kernel == AttentionKernel::forward
                        ? forward_places(rows, columns, stages, row_bytes).bytes
                    : kernel == AttentionKernel::query_gradients
                        ? query_gradient_places(rows, columns, stages, row_bytes).bytes
                        : key_gradient_places(rows, columns, stages, row_bytes).bytes;
  return static_cast<std::uint64_t>(bytes);
}

namespace detail {

// Measured on an H200. One warpgroup a block and several blocks a multiprocessor beat bigger blocks: blocks
// drift apart, so that one's softmax overlaps with another's matmuls. More than 168 registers (3 blocks) or
// 128 (4) would cost a block.
HYDRAC_FN constexpr AttentionTile hopper_tile(AttentionKernel kernel, const AttentionProblem& p) {
  const int head_dim = static_cast<int>(p.head_dim);
  const bool small = head_dim <= 64, has_dropout = p.has_dropout;
  // Two warpgroups, and those that serve them, take the registers of a multiprocessor; a head of one tile is
  // the work of one, so that two blocks share them.
  if (kernel == AttentionKernel::head_gradients) {
    const int tiles = static_cast<int>((p.tokens + kGradientColumns - 1) / kGradientColumns);
    return {tiles > 1 ? 8 : 4, 1, kGradientColumns, tiles, tiles > 1 ? 1 : 2};
  }
  if (kernel == AttentionKernel::gradients) return {kGradientRows / 16, 1, kGradientColumns, 4, 1};
  if (kernel == AttentionKernel::query_terms) return {kGradientRows / 16, 1, kGradientColumns, 1, 6};
  if (kernel == AttentionKernel::fp8_operands) return {kFp8Columns / 16, 1, kFp8Columns, 1, 2};
  // Warpgroups that share tiles: with one each, as below, the L2 cache would limit them. Measured on an H100:
  // heads of 64 with two warpgroups take 1.35 times as long.
  if (kernel == AttentionKernel::fp8_forward) return {small ? 12 : 8, 1, kFp8Columns, small ? 4 : 2, 1};
  if (kernel == AttentionKernel::forward) return {4, 1, 64, 3, small ? 4 : 2};
  if (kernel == AttentionKernel::query_gradients) return {small ? 4 : 8, 1, 64, 3, small ? 3 : 1};
  if (small) return {4, 1, 64, 3, has_dropout || p.has_softcap ? 2 : 3};
  return {8, 1, 64, 3, 1};
}

HYDRAC_FN constexpr AttentionTile mma_tile(AttentionKernel kernel, int head_dim, bool has_dropout) {
  const int size = head_dim <= 64 ? 0 : head_dim <= 128 ? 1 : 2;
  if (kernel == AttentionKernel::forward) {
    if (size == 0 && has_dropout) return {4, 1, 64, 2, 2};
    constexpr AttentionTile tiles[] = {{4, 2, 64, 2, 2}, {4, 1, 64, 2, 2}, {4, 1, 32, 2, 1}};
    return tiles[size];
  }
  if (kernel == AttentionKernel::query_gradients) {
    constexpr AttentionTile tiles[] = {{4, 2, 32, 2, 2}, {4, 1, 32, 2, 2}, {4, 1, 16, 2, 1}};
    return tiles[size];
  }
  if (size == 0 && has_dropout) return {4, 1, 64, 2, 2};
  constexpr AttentionTile tiles[] = {{4, 2, 32, 2, 2}, {4, 1, 32, 2, 2}, {4, 1, 16, 2, 1, 2}};
  return tiles[size];
}

HYDRAC_FN constexpr AttentionTile plain_tile(AttentionKernel kernel, int head_dim) {
  const int size = head_dim <= 64 ? 0 : head_dim <= 128 ? 1 : 2;
  if (kernel == AttentionKernel::key_gradients) {
    constexpr AttentionTile tiles[] = {{4, 1, 32, 2, 2}, {4, 1, 16, 2, 1}, {4, 1, 16, 2, 1, 2}};
    return tiles[size];
  }
  constexpr AttentionTile tiles[] = {{4, 1, 32, 2, 2}, {4, 1, 32, 2, 1}, {4, 1, 16, 2, 1}};
  return tiles[size];
}

// Registers that a thread needs: of sums, scores and what matmuls take of them, and those of addresses and
// masks. tests/unit/cuda sees that the compiler needs no more.
HYDRAC_FN constexpr int attention_registers(const AttentionProblem& p, AttentionKernel kernel, int row_tiles,
                                            int columns) {
  const int dim = padded_head_dim(p.head_dim);
  const int sums = kernel == AttentionKernel::key_gradients ? dim : dim / 2;
  const int scores = kernel == AttentionKernel::forward ? columns / 2 : columns;
  const int others = p.has_dropout || p.has_softcap ? 48 : 24;
  return row_tiles * (sums + scores + columns / 4) + others;
}

// Registers for a thread, of the 255 that it may have: mma.sync's operands take some more than the estimate
// counts.
HYDRAC_FN constexpr int most_registers(const AttentionProblem& p) {
  return attention_family(p) == AttentionFamily::hopper ? 232 : 208;
}

constexpr int kRegistersOfSm = 64 << 10;

HYDRAC_FN constexpr TileShape given_shape(const AttentionProblem& p, AttentionKernel kernel) {
  if (kernel == AttentionKernel::forward) return p.tiles.forward;
  if (kernel == AttentionKernel::query_gradients) return p.tiles.query_gradients;
  return kernel == AttentionKernel::key_gradients ? p.tiles.key_gradients : TileShape{};
}

// A tile of that shape, with as few warps as registers allow: each reads all of the other side.
HYDRAC_FN constexpr AttentionTile shaped_tile(const AttentionProblem& p, AttentionKernel kernel,
                                              const TileShape& shape) {
  const bool is_hopper = attention_family(p) == AttentionFamily::hopper;
  const bool has_room = attention_registers(p, kernel, 2, shape.columns) <= most_registers(p);
  const int row_tiles = !is_hopper && shape.rows >= 128 && has_room ? 2 : 1;
  AttentionTile tile{shape.rows / (16 * row_tiles), row_tiles, shape.columns, is_hopper ? 3 : 2, 1};
  // wgmma's third stage is one that matmuls still read; a second one is for speed alone.
  const auto limit = static_cast<std::uint64_t>(shared_bytes_of_block(p.capability));
  if (!is_hopper && attention_shared_bytes(p, kernel, tile) > limit) tile.stages = 1;
  constexpr int kOfSystem = 1024;  // of each block's shared memory
  const int by_registers =
      kRegistersOfSm / (tile.threads() * attention_registers(p, kernel, row_tiles, shape.columns));
  const int by_shared = static_cast<int>(static_cast<std::uint64_t>(shared_bytes_of_sm(p.capability)) /
                                         (attention_shared_bytes(p, kernel, tile) + kOfSystem));
  const int most = is_hopper ? 4 : 2;
  const int blocks = by_registers < by_shared ? by_registers : by_shared;
  tile.blocks_per_sm = blocks < 1 ? 1 : blocks < most ? blocks : most;
  return tile;
}

}  // namespace detail

enum class TileObstacle {
  none,
  kernel,  // no kernel of 16-bit numbers computes the problem
  width,   // wgmma's kernels take 64 or 128 rows of the other side
  registers,
  shared,  // memory of a block
};

// Why a kernel (forward, query_gradients or key_gradients) cannot have a tile of that shape: 64 or 128 rows
// by 32, 64 or 128.
HYDRAC_FN constexpr TileObstacle tile_obstacle(const AttentionProblem& p, AttentionKernel kernel,
                                               const TileShape& shape) {
  const AttentionFamily family = attention_family(p);
  if (family == AttentionFamily::plain) return TileObstacle::kernel;
  if (family == AttentionFamily::hopper && shape.columns < 64) return TileObstacle::width;
  const AttentionTile tile = detail::shaped_tile(p, kernel, shape);
  const int registers = detail::attention_registers(p, kernel, tile.row_tiles, tile.columns);
  if (registers > detail::most_registers(p) || registers * tile.threads() > detail::kRegistersOfSm)
    return TileObstacle::registers;
  const auto limit = static_cast<std::uint64_t>(shared_bytes_of_block(p.capability));
  return attention_shared_bytes(p, kernel, tile) > limit ? TileObstacle::shared : TileObstacle::none;
}

// The tile that a problem's kernel uses, whatever its batch: the one measured or reckoned best for its
// head_dim, made smaller until it fits the chip's shared memory. Or what the problem asks for, which has no
// tile_obstacle().
HYDRAC_FN constexpr AttentionTile attention_tile(const AttentionProblem& p, AttentionKernel kernel) {
  const TileShape given = detail::given_shape(p, kernel);
  if (given.is_given()) return detail::shaped_tile(p, kernel, given);
  const AttentionFamily family = attention_family(p);
  const int dim = static_cast<int>(p.head_dim);
  AttentionTile tile = family == AttentionFamily::hopper ? detail::hopper_tile(kernel, p)
                       : family == AttentionFamily::mma  ? detail::mma_tile(kernel, dim, p.has_dropout)
                                                         : detail::plain_tile(kernel, dim);
  const auto limit = static_cast<std::uint64_t>(shared_bytes_of_block(p.capability));
  while (attention_shared_bytes(p, kernel, tile) > limit) {
    if (tile.stages > 1) {
      --tile.stages;
    } else if (tile.columns > (family == AttentionFamily::plain ? 8 : 16)) {
      tile.columns /= 2;
    } else {
      tile.warps /= 2;
    }
  }
  return tile;
}

// Rows [3,H,D] of sums over tokens that head_gradients leaves: one a warp and sequence.
HYDRAC_FN constexpr std::int64_t attention_sums_rows(const AttentionProblem& p) {
  return p.batch * attention_tile(p, AttentionKernel::head_gradients).warps;
}

// Threads of a block: its tile's, and a warpgroup that serves them in gradients, head_gradients and
// fp8_forward. In head_gradients one more makes d_q, unless there is but one tile of tokens.
HYDRAC_FN constexpr int attention_threads(const AttentionTile& tile, AttentionKernel kernel) {
  const bool owns_heads = kernel == AttentionKernel::head_gradients;
  if (owns_heads && tile.stages > 1) return tile.threads() + 2 * 128;
  const bool is_served =
      owns_heads || kernel == AttentionKernel::gradients || kernel == AttentionKernel::fp8_forward;
  return tile.threads() + (is_served ? 128 : 0);
}

// The blocks of gradients take pieces of work while there are any, those of head_gradients heads.
HYDRAC_FN constexpr AttentionLaunch attention_launch(const AttentionProblem& p, AttentionKernel kernel) {
  const AttentionTile tile = attention_tile(p, kernel);
  const bool owns_heads = kernel == AttentionKernel::head_gradients;
  const bool takes_pieces = kernel == AttentionKernel::gradients || owns_heads;
  const bool owns_keys = kernel == AttentionKernel::key_gradients || kernel == AttentionKernel::gradients ||
                         kernel == AttentionKernel::fp8_operands;
  const std::int64_t blocks = owns_heads ? 1 : (p.tokens + tile.rows() - 1) / tile.rows();
  const std::int64_t all = p.batch * (owns_keys ? p.kv_heads : p.heads) * blocks * tile.parts;
  const std::int64_t at_once = static_cast<std::int64_t>(p.multiprocessors) * tile.blocks_per_sm;
  return {static_cast<unsigned>(takes_pieces && all > at_once ? at_once : all),
          attention_threads(tile, kernel), tile.blocks_per_sm, attention_shared_bytes(p, kernel, tile)};
}

// Bytes of the workspace of gradients (GradientWorkspace): for each tile of d_q its sum and whose turn it is,
// QueryTerms [B,H,T], a counter.
HYDRAC_FN constexpr std::uint64_t attention_gradients_workspace(const AttentionProblem& p) {
  const std::uint64_t rows = static_cast<std::uint64_t>(p.batch * p.heads);
  const std::uint64_t tiles = rows * static_cast<std::uint64_t>(gradient_query_tiles(p.tokens));
  return tiles * (kGradientColumns * kGradientDim * 4 + 4) + rows * static_cast<std::uint64_t>(p.tokens) * 8 +
         4;
}

// Bytes of the backward pass's workspace; of the pair, QueryTerms [B,H,T].
HYDRAC_FN constexpr std::uint64_t attention_backward_workspace(const AttentionProblem& p) {
  if (attention_owns_heads(p)) return 0;
  if (attention_fuses_gradients(p)) return attention_gradients_workspace(p);
  return static_cast<std::uint64_t>(p.batch * p.heads * p.tokens) * 8;
}

}  // namespace hydrac::cuda
