// The forward of attention with matmuls of 8 bits (Shah et al.: FlashAttention-3; 2024): queries, keys,
// values and probabilities in e4m3, sums and the softmax in f32.
//
// A block has 64 rows of queries for each of its consumer warpgroups, and a producer that copies tiles of
// keys and values to stages in shared memory. Queries become 8 bits where they are read, a scale a row; keys
// and values were made so by attention_fp8_operands, a scale a tile of 128 tokens. Sums of 8-bit matmuls have
// about 14 bits, which was measured to change nothing: of 16384 keys the error is the same with f32 sums of
// tiles.
#pragma once
#include "cuda/attention/fp8_block.cuh"
#include "cuda/attention/fp8_queries.cuh"
#include "cuda/attention/fp8_softmax.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/scores.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_fp8_forward() {
  return {Config::rows, Config::threads + 128, Fp8Shared<Config>::kPlaces.bytes};
}

// Begins scores = queries . keys^T of a warpgroup's 64 rows.
template <class Config>
__device__ __forceinline__ void multiply_fp8_keys(Fragment<1, kFp8Columns>& scores, std::uint32_t queries,
                                                  std::uint32_t keys) {
  wgmma::fence();
#pragma unroll
  for (int k = 0; k < Config::head_dim / 32; ++k)
    wgmma::multiply_f8<kFp8Columns>(scores.at[0], wgmma::row_descriptor<Config::head_dim>(queries + k * 32),
                                    wgmma::row_descriptor<Config::head_dim>(keys + k * 32), k > 0);
  wgmma::commit();
}

// Begins sums = (add ? sums : 0) + weights . values.
template <class Config>
__device__ __forceinline__ void add_fp8_values(Fragment<1, Config::head_dim>& sums,
                                               const std::uint32_t (&weights)[kFp8Columns / 32][4],
                                               std::uint32_t values, bool add) {
  wgmma::fence_operands(sums.at[0]);
  wgmma::fence();
#pragma unroll
  for (int k = 0; k < kFp8Columns / 32; ++k)
    wgmma::multiply_f8<Config::head_dim>(sums.at[0], weights[k],
                                         wgmma::row_descriptor<kFp8Columns>(values + k * 32), add || k > 0);
  wgmma::commit();
}

// A consumer warpgroup's rows, which it has: sums, and the softmax that they have to be divided by. A tile's
// values are multiplied while the next tile's scores become probabilities. A mask asks for `shape` and
// `first_query`.
template <class Config, class Softmax>
__device__ __forceinline__ void attend_fp8(Fragment<1, Config::head_dim>& sums, Softmax& softmax,
                                           Fp8Stream<Config>& stream, const Fp8Rows<Config>& rows,
                                           std::uint32_t queries, const float (&factor)[2],
                                           const Place& place, const typename Config::Sequence& shape,
                                           int first_query) {
  using Mask = typename Config::Mask;
  std::uint32_t weights[kFp8Columns / 32][4];
  const auto apply_softmax = [&](Fragment<1, kFp8Columns>& scores, int tile, const Fp8TileScales& scales,
                                 float(&rescale)[1][2]) {
    wgmma::fence_operands(scores.at[0]);
    stream.release_keys();
    if (rows.needs_mask(tile))
      mask<Mask, false>(scores, place, first_query, tile * kFp8Columns, shape, -kInfinity);
    return softmax.step(scores, factor, scales, rescale);
  };
  {
    Fragment<1, kFp8Columns> scores;
    float rescale[1][2];
    const std::uint32_t keys = stream.wait_keys();
    const Fp8TileScales scales = stream.scales();
    multiply_fp8_keys<Config>(scores, queries, keys);
    wgmma::wait<0>();
    apply_softmax(scores, rows.first_tile, scales, rescale);
    round_to_f8(weights, scores);
  }
  bool add = false;
#pragma unroll 1
  for (int tile = rows.first_tile + 1; tile < rows.end_tile; ++tile) {
    Fragment<1, kFp8Columns> scores;
    float rescale[1][2];
    const std::uint32_t keys = stream.wait_keys();
    const Fp8TileScales scales = stream.scales();
    multiply_fp8_keys<Config>(scores, queries, keys);
    add_fp8_values<Config>(sums, weights, stream.wait_values(), add);
    wgmma::wait<1>();
    const bool moved = apply_softmax(scores, tile, scales, rescale);
    wgmma::wait<0>();
    wgmma::fence_operands(sums.at[0]);
    stream.release_values();
    if (moved) sums.scale_rows(rescale);
    round_to_f8(weights, scores);
    add = true;
  }
  add_fp8_values<Config>(sums, weights, stream.wait_values(), add);
  wgmma::wait<0>();
  wgmma::fence_operands(sums.at[0]);
  stream.release_values();
  softmax.finish();
}

// lse [B,H,T] float. `workspace`: what attention_fp8_operands filled. shape.scale is positive. How it is
// launched: cuda/attention/geometry.h.
template <class Config>
__device__ __forceinline__ void attention_fp8_forward(const typename Config::Sequence& shape,
                                                      Heads<const typename Config::Storage> q,
                                                      Heads<typename Config::Storage> out, float* lse,
                                                      const void* workspace) {
  using Mask = typename Config::Mask;
  constexpr int groups = Config::warps / 4;
  static_assert(Config::columns == kFp8Columns && Config::row_tiles == 1);
  const auto* operands = static_cast<const std::uint8_t*>(workspace);
  const Fp8Shared<Config> shared;
  const Fp8Block<Config> block(shape);
  const Fp8Rows<Config> seen(shape, block.first, Config::rows);
  const std::int64_t head_tile = static_cast<std::int64_t>(block.batch * shape.kv_heads + block.kv_head) *
                                 ((shape.tokens + kFp8Columns - 1) / kFp8Columns);
  const Place place;
  const int group = place.warp / 4;
  if (threadIdx.x == 0) shared.create_barriers();
  __syncthreads();  // barriers are initialized before anyone waits on them

  // Registers of a multiprocessor: 4 warpgroups have 128 each and divide them anew, 3 have 168.
  if (group == groups) {
    ptx::shrink_registers<groups == 3 ? 32 : 24>();
    if (place.warp % 4 == 0 && place.lane == 0)
      copy_fp8_tiles(shared, operands, head_tile + seen.first_tile, seen.end_tile - seen.first_tile);
    return;
  }
  ptx::grow_registers<groups == 3 ? 160 : 240>();
  const Fp8Rows<Config> rows(shape, block.first + group * 64, 64);
  Fp8Stream<Config> stream(shared, place.lane);
  if (rows.count <= 0) {
    for (int tile = seen.first_tile; tile < seen.end_tile; ++tile) stream.skip();
    return;
  }
  float factor[2];
  load_fp8_queries<Config>(shared, group, q.at(block.batch, rows.first, block.head), q.token_stride,
                           rows.count, shape.scale * kLog2E, factor);

  Fragment<1, Config::head_dim> sums;
  Fp8Softmax<Mask::hides_earlier> softmax;
  for (int tile = seen.first_tile; tile < rows.first_tile; ++tile) stream.skip();
  attend_fp8<Config>(sums, softmax, stream, rows, shared.queries(group), factor, place, shape, block.first);
  for (int tile = rows.end_tile; tile < seen.end_tile; ++tile) stream.skip();

  float* lse_to = lse + static_cast<std::int64_t>(block.row) * shape.tokens + block.first;
  float by_sum[1][2];
  for_rows<1>(place, [&](int m, int half, int row) {
    by_sum[m][half] = 1.0f / softmax.sum[half];
    if (place.lane % 4 == 0 && row < seen.count) lse_to[row] = softmax.log_sum(half);
  });
  store_rows<Config::head_dim>(out.at(block.batch, block.first, block.head), out.token_stride, seen.count,
                               place, 0, sums, by_sum);
}

}  // namespace hydrac::cuda
