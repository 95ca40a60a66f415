// The query terms of a whole head, for attention_head_gradients.
#pragma once
#include "cuda/attention/head_shared.cuh"
#include "cuda/attention/softmax.cuh"

namespace hydrac::cuda {

// Of the rows of `out` and lse that a thread works on: eight threads share a row. They are read ahead of the
// head, so that memory brings them while the head before is computed.
template <class Config>
class HeadTerms {
 public:
  using Storage = typename Config::Storage;

  // Starts to read a head's rows, lse [tokens].
  __device__ __forceinline__ void load(const Heads<const Storage>& out, const float* lse, int batch, int head,
                                       int tokens) {
    const Storage* first = out.at(batch, 0, head) + chunk() * 8;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int from = min(row(i), tokens - 1);  // loads need no branch
      lse_[i] = lse[from];
      out_[i] = hydrac::load<8>(first + from * out.token_stride);
    }
  }

  // Stores lse2 and delta = d_out . out, zeros from row `tokens` on, once d_out is in shared memory.
  __device__ __forceinline__ void store(const HeadShared<Config>& shared, int tokens) const {
    constexpr int rows = HeadShared<Config>::kTileRows;
    static_assert(rows % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);
    const std::uint32_t own = row(0) * 128 + (chunk() ^ row(0) % 8) * 16;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const auto words = ptx::load_shared<4>(shared.d_outs(0) + own + i * (kRowsAtOnce * 128));
      const auto d_out = __builtin_bit_cast(Vector<Storage, 8>, words);
      float sum = 0.0f;
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fma(to_float(out_[i].at[e]), to_float(d_out.at[e]), sum);
#pragma unroll
      for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
      if (chunk() == 0) {
        const bool valid = row(i) < tokens;
        const int first = i * kRowsAtOnce;
        const std::uint32_t to = shared.terms(first / rows) + (first % rows + row(0)) * 4;
        ptx::store_shared(to, float_bits(valid ? lse_[i] * kLog2E : 0.0f));
        ptx::store_shared(to + rows * 4, float_bits(valid ? sum : 0.0f));
      }
    }
  }

 private:
  static constexpr int kRowsAtOnce = Config::threads / 8;
  static constexpr int kRounds = HeadShared<Config>::kTiles * HeadShared<Config>::kTileRows / kRowsAtOnce;

  static __device__ __forceinline__ int row(int round) {
    return static_cast<int>(threadIdx.x) / 8 + round * kRowsAtOnce;
  }
  static __device__ __forceinline__ int chunk() {
    return static_cast<int>(threadIdx.x) % 8;
  }

  Vector<Storage, 8> out_[kRounds];
  float lse_[kRounds];
};

}  // namespace hydrac::cuda
