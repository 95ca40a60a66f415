// Keys and values in e4m3 as the forward pass of 8 bits reads them, and where it has them in shared memory:
// kernels, the planner and launches share it. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

inline constexpr int kFp8Columns = 128;       // tokens of a tile, which have one scale
inline constexpr float kFp8Largest = 448.0f;  // of e4m3
inline constexpr float kFp8Least = 0x1p-60f;  // what the largest number of zeros is taken to be

// Factors of a tile's 8-bit numbers: `key` for keys, 2^log2_value = 1 / inverse_value for values.
struct alignas(16) Fp8TileScales {
  float key, log2_value, inverse_value, unused;
};

// The workspace [B,G,tiles], G heads of keys: each tile has keys, scales and values. Keys and values have the
// swizzled layout that wgmma reads in shared memory, so one bulk copy loads the keys with their scales, and
// another the values. A row of keys is a token, a row of values a channel. Each 16 tokens of a row of values
// are in the order in which a thread holds its scores (fp8_token_at), so the rounded probabilities are the
// left operand as they are.
struct Fp8Tiles {
  int head_dim;

  HYDRAC_FN constexpr int operand_bytes() const { return kFp8Columns * head_dim; }
  HYDRAC_FN constexpr int keys_bytes() const {
    return operand_bytes() + static_cast<int>(sizeof(Fp8TileScales));
  }
  HYDRAC_FN constexpr int tile_bytes() const { return 2 * operand_bytes() + 128; }
  HYDRAC_FN constexpr std::int64_t keys(std::int64_t tile) const { return tile * tile_bytes(); }
  HYDRAC_FN constexpr std::int64_t scales(std::int64_t tile) const { return keys(tile) + operand_bytes(); }
  HYDRAC_FN constexpr std::int64_t values(std::int64_t tile) const { return scales(tile) + 128; }
};

// The token, of 16, whose value stands at `place`: 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15.
HYDRAC_FN constexpr int fp8_token_at(int place) {
  return place / 4 * 2 + place % 2 + place % 4 / 2 * 8;
}

// Place of a row's 16-byte chunk in a tile whose rows have 64 or 128 bytes.
HYDRAC_FN constexpr int fp8_chunk_offset(int row_bytes, int row, int chunk) {
  const int swizzle = row_bytes == 128 ? row % 8 : row / 2 % 4;
  return row * row_bytes + (chunk ^ swizzle) * 16;
}

// Work of block `index` of the grid: a head's row [B,H] and one of the `blocks` blocks of its queries, the
// longest under the causal mask first. Heads whose keys and values have room in the L2 cache together take
// turns, so that a launch does not end with the long blocks of one. `group`: heads that share keys.
struct Fp8Turn {
  int row, block;
};
HYDRAC_FN constexpr Fp8Turn fp8_turn(int index, int rows, int blocks, int group, std::int64_t kv_bytes) {
  constexpr std::int64_t cache_bytes = 16 << 20;
  const int fit = static_cast<int>(cache_bytes / kv_bytes), heads = (fit > 0 ? fit : 1) * group;
  const int first = index / (heads * blocks) * heads, within = index - first * blocks;
  const int here = rows - first < heads ? rows - first : heads;
  return {first + within % here, within / here};
}

// Bytes from the beginning of shared memory, where the queries lie. Of keys, with their scales, and values
// there are `stages` tiles, which begin at multiples of 1024 bytes, each with four mbarriers in all.
struct Fp8Places {
  int keys, values, row_scales, barriers;
  int keys_stride;
  int bytes;  // of all
};

HYDRAC_FN constexpr Fp8Places fp8_places(int rows, int stages, int head_dim) {
  const Fp8Tiles tiles{head_dim};
  const int stride = tiles.operand_bytes() + 1024, keys = rows * head_dim, values = keys + stages * stride,
            row_scales = values + stages * tiles.operand_bytes(), barriers = row_scales + rows * 4;
  return {keys, values, row_scales, barriers, stride, barriers + 4 * stages * 8};
}

}  // namespace hydrac
