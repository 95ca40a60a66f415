// The matmuls of one warpgroup with wgmma (sm_90a). They run on their own once begun: commit() closes a group
// of them, wait_for_all() and wait_for_all_but_last() return when at most none or one group is unfinished,
// and fence_operands() stands before sums are read or written. An unfinished matmul reads and writes the
// registers of its fragments.
#pragma once
#include "cuda/attention/rounded_fragment.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac {

// Tiles are panels of 64 columns: rows of 128 bytes whose 16-byte chunks are swizzled by their row. The left
// tile has `rows` rows; a row has head_dim elements.
template <class Storage_, int rows, int head_dim>
struct WgmmaMatmul {
  using Storage = Storage_;
  static constexpr bool is_async = true;
  static_assert(rows % 64 == 0 && head_dim % 64 == 0);

  template <int K>
  using Weights = RoundedFragment<1, K>;

  template <int K>
  static __device__ __forceinline__ void round(RoundedFragment<1, K>& weights, const Fragment<1, K>& c) {
    round_fragment<Storage>(weights, c);
  }

  template <int tile_rows>
  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    return chunk / 8 * (tile_rows * 128) + row * 128 + (chunk % 8 ^ row % 8) * 16;
  }

  // c = a . b^T over the head dimension: this warpgroup's rows of tile a, all N rows of tile b.
  template <int N>
  static __device__ __forceinline__ void scores(Fragment<1, N>& c, const Place& place, std::uint32_t a,
                                                std::uint32_t b) {
    const std::uint32_t a_from = a + place.warp / 4 * (64 * 128);
#pragma unroll
    for (int k = 0; k < head_dim / 16; ++k) {
      const int panel = k / 4, column_bytes = k % 4 * 32;
      wgmma::multiply<Storage, N>(c.at[0], wgmma::descriptor(a_from, 0, panel * rows * 128 + column_bytes),
                                  wgmma::descriptor(b, 0, panel * N * 128 + column_bytes), k > 0);
    }
  }

  // c = (add ? c : 0) + weights . b: K rows of tile b.
  template <int K, int N>
  static __device__ __forceinline__ void accumulate(Fragment<1, N>& c, const Place&,
                                                    const RoundedFragment<1, K>& weights, std::uint32_t b,
                                                    bool add, int = 0) {
    static_assert(N == head_dim);
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
      wgmma::multiply<Storage, N>(c.at[0], weights.at[0][k], wgmma::descriptor(b, K * 128, k * 16 * 128),
                                  add || k > 0);
    }
  }

  // Nothing: the first matmul overwrites its sums. Writing them here would make the compiler finish each
  // matmul before the next (its warning C7515).
  template <int N>
  static __device__ __forceinline__ void clear(Fragment<1, N>&) {}

  // Makes shared memory that this thread wrote visible to matmuls.
  static __device__ __forceinline__ void publish_tiles() {
    ptx::fence_shared_memory();
  }
  // Orders accesses to registers and shared memory before the matmuls that follow.
  static __device__ __forceinline__ void begin() {
    wgmma::fence();
  }
  static __device__ __forceinline__ void commit() {
    wgmma::commit();
  }
  static __device__ __forceinline__ void wait_for_all() {
    wgmma::wait<0>();
  }
  static __device__ __forceinline__ void wait_for_all_but_last() {
    wgmma::wait<1>();
  }
  template <int N>
  static __device__ __forceinline__ void fence_operands(Fragment<1, N>& c) {
    wgmma::fence_operands(c.at[0]);
  }
};

}  // namespace hydrac
