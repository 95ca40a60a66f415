// The mainloop of a consumer warpgroup, and the sums that it leaves in registers.
#pragma once
#include "cuda/matmul/pipeline.cuh"
#include "cuda/matmul/shared.cuh"
#include "cuda/ptx.cuh"
#include "cuda/wgmma.cuh"

namespace hydrac::cuda {

// A stage of a matmul's pipeline: the consumer's panels of b are the left side of its instructions, the rows
// of a the right one.
template <class Config>
struct MatmulOperands {
  using Stage = PipelineStage<Config::tile.stages>;
  static constexpr bool left_rows = !Config::b_transposed, right_rows = false;
  static constexpr int left_part_bytes = MatmulTile::panel_bytes, right_panel_bytes = 0;
  MatmulShared<Config> shared;
  int panel;  // the consumer's first

  __device__ __forceinline__ std::uint32_t left(int stage) const { return shared.b(stage, panel); }
  __device__ __forceinline__ std::uint32_t right(int stage) const { return shared.a(stage); }
  __device__ __forceinline__ Pipeline<Config::tile.stages> pipeline() const { return shared.pipeline(); }

  // Tells the producers of all blocks that copy to the stage. Of a block's only tile, those of the last
  // stages do not wait for it, and a block that has ended must not be told.
  __device__ __forceinline__ void release(int stage, [[maybe_unused]] int step) const {
    if constexpr (!Config::tile.is_persistent()) {
      if (!Config::is_ring || step + Config::tile.stages >= Config::depth_tiles) return;
    }
    const std::uint32_t empty = pipeline().empty(stage);
    const int thread = threadIdx.x % 128;
    if constexpr (Config::tile.cluster > 1) {
      if (thread < Config::tile.cluster) barrier::arrive_at(empty, thread);
    } else {
      if (thread == 0) barrier::arrive(empty);
    }
  }
};

// `parts` matrices [64, columns]. Element e of fragment n of a part is in row
// warp * 16 + lane / 4 + e / 2 * 8, column n * 8 + lane % 4 * 2 + e % 2. A struct such as MatmulOperands
// describes a stage's operands. left_rows and right_rows: k is the rows of the operand, not contiguous.
// left_part_bytes: from the left side of a part to that of the next. right_panel_bytes: from 64 columns of
// the right side to the next, if right_rows. release(stage, step): the warpgroup has read the operands of
// that step.
template <class Storage, int parts, int columns>
class Accumulators {
 public:
  static constexpr int fragments = columns / 8;

  // Begins the matmuls of `steps` stages from `stage` on, which moves behind them. Returns when the last ones
  // have begun: one stage multiplies while the next is waited for.
  template <class Operands, class Stage>
  __device__ __forceinline__ void start(const Operands& operands, Stage& stage, int steps) {
    operands.pipeline().wait_full(stage);
    multiply<true>(operands, stage.index);
    last_ = stage.index;
    stage.advance();
#pragma unroll 1
    for (int step = 1; step < steps; ++step) {
      operands.pipeline().wait_full(stage);
      multiply<false>(operands, stage.index);
      wgmma::wait<1>();
      operands.release(last_, step - 1);
      last_ = stage.index;
      stage.advance();
    }
  }

  // Returns when the sums are complete.
  template <class Operands>
  __device__ __forceinline__ void finish(const Operands& operands, int steps) {
    wgmma::wait<0>();
    operands.release(last_, steps - 1);
#pragma unroll
    for (int part = 0; part < parts; ++part) wgmma::fence_operands(at[part]);
  }

  // The same from a block's first stage on, as a whole.
  template <class Operands>
  __device__ __forceinline__ void compute(const Operands& operands, int steps) {
    typename Operands::Stage stage;
    start(operands, stage, steps);
    finish(operands, steps);
  }

  // Rounds share `share` of `shares` of the columns and writes them as rows, one after the other: 64 elements
  // of each part, in 16-byte chunks that are permuted by the row.
  __device__ __forceinline__ void store_transposed(std::uint32_t rows, int share, int shares) const {
    constexpr int row_bytes = parts * 128;
    const int count = fragments / shares, first = share * count;  // constant, once inlined
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const std::uint32_t to =
        rows + (lane / 16 * 8 + lane % 8) * row_bytes + ((warp * 2 + lane / 8 % 2) ^ lane % 8) * 16;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
#pragma unroll
      for (int n = 0; n < count; n += 2) {
        ptx::stmatrix_transposed(to + part * 128 + n * 8 * row_bytes,
                                 {rounded(part, first + n, 0), rounded(part, first + n, 2),
                                  rounded(part, first + n + 1, 0), rounded(part, first + n + 1, 2)});
      }
    }
  }

  float at[parts][fragments][4];

 private:
  // Begins the matmuls of one stage. That the first ones overwrite the sums must be constant, or the compiler
  // would keep the sums of the tile before through its epilogue.
  template <bool first, class Operands>
  __device__ __forceinline__ void multiply(const Operands& operands, int stage) {
    constexpr int left_step = Operands::left_rows ? 16 * 128 : 32;  // to the next 16 of k
    constexpr int right_step = Operands::right_rows ? 16 * 128 : 32;
    // In a cluster an address says which block it is of; a descriptor has no room for that.
    const std::uint32_t left = operands.left(stage) & 0x3FFFF, right = operands.right(stage) & 0x3FFFF;
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < MatmulTile::depth / 16; ++k) {
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        wgmma::multiply_shared<Storage, columns, Operands::left_rows, Operands::right_rows>(
            at[part], wgmma::descriptor(left, 0, part * Operands::left_part_bytes + k * left_step),
            wgmma::descriptor(right, Operands::right_panel_bytes, k * right_step), !first || k > 0);
      }
    }
    wgmma::commit();
  }

  __device__ __forceinline__ std::uint32_t rounded(int part, int n, int e) const {
    return ptx::pack<Storage>(at[part][n][e], at[part][n][e + 1]);
  }

  int last_ = 0;  // the latest stage begun
};

template <class Config>
using MatmulSums = Accumulators<typename Config::Storage, Config::tile.consumer_panels(), Config::tile.rows>;

}  // namespace hydrac::cuda
