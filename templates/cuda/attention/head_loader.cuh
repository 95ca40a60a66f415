// The warps that bring heads to shared memory for attention_head_gradients, and their query terms.
#pragma once
#include "cuda/attention/head_shared.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/softmax.cuh"

namespace hydrac::cuda {

// Inputs and outputs of attention_head_gradients, all of [B,T,H,D] but for lse [B,H,T] and each warp's sums
// of d_q, d_k and d_v over its tokens, [B,warps,3,H,D]: nullptr where nobody asks for them.
template <class Storage>
struct HeadTensors {
  Heads<const Storage> q, k, v, out;
  const float* lse;
  Heads<const Storage> d_out;
  Heads<Storage> d_q, d_k, d_v;
  float* sums;
};

// One of four by selects, so that no tensor needs an address.
template <class T>
__device__ __forceinline__ Heads<T> one_of(int index, const Heads<T>& a, const Heads<T>& b, const Heads<T>& c,
                                           const Heads<T>& d) {
  const auto pick = [index](auto first, auto second, auto third, auto fourth) {
    return index == 0 ? first : index == 1 ? second : index == 2 ? third : fourth;
  };
  return {pick(a.data, b.data, c.data, d.data),
          pick(a.batch_stride, b.batch_stride, c.batch_stride, d.batch_stride),
          pick(a.token_stride, b.token_stride, c.token_stride, d.token_stride),
          pick(a.head_stride, b.head_stride, c.head_stride, d.head_stride)};
}

// One of four warps. Each copies the tiles of one tensor, of the block's first head, then of the next; and of
// each tile's queries it has a quarter, of which it computes lse2 and delta = d_out . out.
template <class Config>
class HeadLoader {
 public:
  using Storage = typename Config::Storage;
  using Shared = HeadShared<Config>;

  __device__ __forceinline__ HeadLoader(const AttentionShape& shape, const Shared& shared,
                                        const HeadTensors<Storage>& x, int warp)
      : shape_(shape),
        shared_(shared),
        out_(x.out),
        lse_(x.lse),
        own_(one_of(warp, x.k, x.v, x.q, x.d_out)),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Takes one tile after another, a tile ahead of their terms.
  __device__ __forceinline__ void run() {
    const int rows = shape_.batch * shape_.heads, step = static_cast<int>(gridDim.x);
    int number = 0;
#pragma unroll 1
    for (int row = static_cast<int>(blockIdx.x); row < rows; row += step) {
#pragma unroll 1
      for (int turn = 0; turn < Shared::kTiles; ++turn, ++number) {
        const int tile = Shared::in_turn(turn);
        barrier::wait(shared_.empty(number), Shared::phase(number) - 1);
        start_rows<kRows>(shared_.tile(number, warp_),
                          own_.at(row / shape_.heads, tile * kRows, row % shape_.heads), own_.token_stride,
                          valid(tile));
        ptx::commit_copies();
        if (number > 0) finish<1>(number - 1);
        load_terms(row, tile);
      }
    }
    if (number > 0) finish<0>(number - 1);
  }

 private:
  static constexpr int kRows = Shared::kTileRows;
  static constexpr int kRounds = kRows / 16;

  __device__ __forceinline__ int valid(int tile) const {
    return min(max(shape_.tokens - tile * kRows, 0), kRows);
  }
  // Eight lanes share a row of the tile.
  __device__ __forceinline__ int query(int round) const {
    return warp_ * 16 + round * 4 + lane_ / 8;
  }

  // Starts to read what the terms are made of.
  __device__ __forceinline__ void load_terms(int row, int tile) {
    valid_ = valid(tile);
    const int last = shape_.tokens - 1;  // loads need no branch
    const Storage* from = out_.at(row / shape_.heads, 0, row % shape_.heads) + lane_ % 8 * 8;
#pragma unroll
    for (int i = 0; i < kRounds; ++i)
      outs_[i] = load<8>(from + min(tile * kRows + query(i), last) * out_.token_stride);
    lse_of_lane_ = lse_[static_cast<std::int64_t>(row) * shape_.tokens +
                        min(tile * kRows + warp_ * 16 + lane_ % 16, last)];
  }

  // Waits for the tiles of that number, behind which `pending` others are begun, and says that matmuls may
  // read them; then for the other three warps, whose tiles are needed for the terms.
  template <int pending>
  __device__ __forceinline__ void finish(int number) {
    ptx::wait_copies<pending>();
    ptx::fence_shared_memory();
    __syncwarp();  // the warp's copies have arrived, not one lane's alone
    if (lane_ == 0) barrier::arrive(shared_.full(number));
    barrier::wait(shared_.full(number), Shared::phase(number));
    const std::uint32_t terms = shared_.terms(number);
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int row = query(i);
      const auto words = ptx::load_shared<4>(shared_.d_outs(number) + row * 128 + (lane_ ^ row) % 8 * 16);
      const auto d_out = __builtin_bit_cast(Vector<Storage, 8>, words);
      float sum = 0.0f;
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fma(to_float(outs_[i].at[e]), to_float(d_out.at[e]), sum);
#pragma unroll
      for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
      if (lane_ % 8 == 0) {
        ptx::store_shared(terms + (kRows + row) * 4, float_bits(row < valid_ ? sum : 0.0f));
      }
    }
    if (lane_ < 16) {
      const int row = warp_ * 16 + lane_;
      ptx::store_shared(terms + row * 4, float_bits(row < valid_ ? lse_of_lane_ * kLog2E : 0.0f));
    }
    __syncwarp();  // the warp's terms are stored before it says so
    if (lane_ == 0) barrier::arrive(shared_.has_terms(number));
  }

  const AttentionShape& shape_;
  const Shared& shared_;
  const Heads<const Storage>& out_;
  const float* lse_;
  Heads<const Storage> own_;
  int warp_, lane_;
  // The tile that was begun last.
  Vector<Storage, 8> outs_[kRounds];
  float lse_of_lane_ = 0.0f;
  int valid_ = 0;
};

}  // namespace hydrac::cuda
