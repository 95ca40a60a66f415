// The matmul policy of a family.
#pragma once
#include "cuda/attention/matmul_mma.cuh"
#include "cuda/attention/matmul_plain.cuh"
#include "cuda/attention/matmul_wgmma.cuh"

namespace hydrac {

namespace detail {

template <AttentionFamily family, class Storage, int row_tiles, int rows, int head_dim>
struct MatmulOfFamily {
  using Type = PlainMatmul<Storage, row_tiles, head_dim>;
};
template <class Storage, int row_tiles, int rows, int head_dim>
struct MatmulOfFamily<AttentionFamily::mma, Storage, row_tiles, rows, head_dim> {
  using Type = MmaMatmul<Storage, row_tiles, head_dim>;
};
template <class Storage, int row_tiles, int rows, int head_dim>
struct MatmulOfFamily<AttentionFamily::hopper, Storage, row_tiles, rows, head_dim> {
  static_assert(row_tiles == 1);
  using Type = WgmmaMatmul<Storage, rows, head_dim>;
};

}  // namespace detail

// `rows`: of the left tile. A warp has row_tiles of 16.
template <AttentionFamily family, class Storage, int row_tiles, int rows, int head_dim>
using MatmulOf = typename detail::MatmulOfFamily<family, Storage, row_tiles, rows, head_dim>::Type;

// Left side of accumulate(): sums of K columns, rounded where matmuls are of 16 bits.
template <class Matmul, int K>
using WeightsOf = typename Matmul::template Weights<K>;

}  // namespace hydrac
