// Keys and values as the forward pass of 8 bits reads them. The kernel runs before it.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/fp8_rounding.cuh"
#include "cuda/attention/softmax.cuh"

namespace hydrac::cuda {

template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_fp8_operands() {
  return {Config::rows, Config::threads, 0};
}

// The largest x of the block. `shared`: a float a warp.
template <int threads>
__device__ __forceinline__ float block_max(float x, float* shared) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();  // each warp's largest is there
#pragma unroll
  for (int warp = 0; warp < threads / 32; ++warp) x = fmaxf(x, shared[warp]);
  return x;
}

// The tile of keys that a block makes, and returns what its 8 bits are multiplied by. `from`: the tile's
// first token; tokens from `valid` on are zeros.
template <class Config>
__device__ __forceinline__ float round_keys(std::uint8_t* to, const typename Config::Storage* from,
                                            std::int64_t token_stride, int valid) {
  constexpr int chunks = Config::head_dim / 8, rounds = kFp8Columns * chunks / Config::threads;
  __shared__ float maxima[Config::warps];
  const int thread = static_cast<int>(threadIdx.x);
  Vector<typename Config::Storage, 8> x[rounds];
  float largest = kFp8Least;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const int index = i * Config::threads + thread;
    x[i] = load_f8_chunk(from, token_stride, valid, index / chunks, index % chunks);
    largest = largest_of(x[i], largest);
  }
  const float scale = block_max<Config::threads>(largest, maxima) / kFp8Largest, by = 1.0f / scale;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const int index = i * Config::threads + thread, token = index / chunks, chunk = index % chunks;
    store(reinterpret_cast<std::uint32_t*>(to + fp8_chunk_offset(Config::head_dim, token, chunk / 2) +
                                           chunk % 2 * 8),
          f8_words(x[i], by));
  }
  return scale;
}

// The same of values, which are transposed.
template <class Config>
__device__ __forceinline__ float round_values(std::uint8_t* to, const typename Config::Storage* from,
                                              std::int64_t token_stride, int valid) {
  constexpr int head_dim = Config::head_dim, chunks = head_dim / 8, words = kFp8Columns / 4;
  constexpr int rounds = words * chunks / Config::threads;
  __shared__ float maxima[Config::warps];
  alignas(16) __shared__ std::uint32_t turned[head_dim][words];
  // Words of a channel's row lie further round by its chunk, so that threads that write them share no bank.
  const auto place = [](int channel, int word) { return word ^ (channel / 8 % 8 * 4); };
  const int thread = static_cast<int>(threadIdx.x);
  Vector<typename Config::Storage, 8> x[rounds][4];  // four tokens that stand side by side
  float largest = kFp8Least;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const int index = i * Config::threads + thread, word = index / chunks;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int token = word / 4 * 16 + fp8_token_at(word % 4 * 4 + j);
      x[i][j] = load_f8_chunk(from, token_stride, valid, token, index % chunks);
      largest = largest_of(x[i][j], largest);
    }
  }
  const float scale = block_max<Config::threads>(largest, maxima) / kFp8Largest, by = 1.0f / scale;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const int index = i * Config::threads + thread, word = index / chunks, chunk = index % chunks;
    const auto at = [&](int j, int e) { return to_float(x[i][j].at[e]) * by; };
#pragma unroll
    for (int e = 0; e < 8; ++e)
      turned[chunk * 8 + e][place(chunk * 8, word)] = f8_word(at(0, e), at(1, e), at(2, e), at(3, e));
  }
  __syncthreads();  // all of the turned tile is there
#pragma unroll
  for (int index = thread; index < head_dim * 8; index += Config::threads) {
    const int channel = index / 8, chunk = index % 8;
    store(reinterpret_cast<std::uint32_t*>(to + fp8_chunk_offset(kFp8Columns, channel, chunk)),
          load<4>(&turned[channel][place(channel, chunk * 4)]));
  }
  return scale;
}

// Fills the workspace of attention_fp8_forward (Fp8Tiles); a block makes a tile of keys and of their values.
template <class Config>
__device__ __forceinline__ void attention_fp8_operands(const SequenceShape& shape,
                                                       Heads<const typename Config::Storage> k,
                                                       Heads<const typename Config::Storage> v,
                                                       void* workspace) {
  static_assert(Config::rows == kFp8Columns);
  constexpr Fp8Tiles tiles{Config::head_dim};
  const int blocks = (shape.tokens + kFp8Columns - 1) / kFp8Columns;
  const int tile = static_cast<int>(blockIdx.x), row = tile / blocks, first = tile % blocks * kFp8Columns;
  const int batch = row / shape.kv_heads, head = row % shape.kv_heads, valid = shape.tokens - first;
  auto* to = static_cast<std::uint8_t*>(workspace);
  const float key =
      round_keys<Config>(to + tiles.keys(tile), k.at(batch, first, head), k.token_stride, valid);
  const float value =
      round_values<Config>(to + tiles.values(tile), v.at(batch, first, head), v.token_stride, valid);
  if (threadIdx.x == 0) {
    *reinterpret_cast<Fp8TileScales*>(to + tiles.scales(tile)) = {key, log(value) * kLog2E, 1.0f / value,
                                                                  0.0f};
  }
}

}  // namespace hydrac::cuda
