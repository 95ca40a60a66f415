// The shared memory of the forward pass of 8 bits, and its stages of keys and values.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/fp8_tiles.h"
#include "cuda/barrier.cuh"
#include "cuda/matmul/pipeline.cuh"
#include "cuda/ptx.cuh"

namespace hydrac::cuda {

// A stage has two mbarriers for its keys and two for its values. Full: the copy has arrived. Empty: all
// consumer warps have read it.
template <class Config>
class Fp8Shared {
 public:
  static constexpr Fp8Tiles kTiles{Config::head_dim};
  static constexpr Fp8Places kPlaces = fp8_places(Config::rows, Config::stages, Config::head_dim);

  __device__ __forceinline__ Fp8Shared() {
    extern __shared__ __align__(1024) unsigned char shared[];
    begin_ = ptx::shared_address(shared);
  }
  // A warpgroup has 64 rows.
  __device__ __forceinline__ std::uint32_t queries(int group) const {
    return begin_ + group * 64 * Config::head_dim;
  }
  __device__ __forceinline__ std::uint32_t row_scales(int group) const {
    return begin_ + kPlaces.row_scales + group * 64 * 4;
  }
  __device__ __forceinline__ std::uint32_t keys(int stage) const {
    return begin_ + kPlaces.keys + stage * kPlaces.keys_stride;
  }
  __device__ __forceinline__ std::uint32_t values(int stage) const {
    return begin_ + kPlaces.values + stage * kTiles.operand_bytes();
  }
  __device__ __forceinline__ std::uint32_t full_keys(int stage) const { return barrier(0, stage); }
  __device__ __forceinline__ std::uint32_t full_values(int stage) const { return barrier(1, stage); }
  __device__ __forceinline__ std::uint32_t empty_keys(int stage) const { return barrier(2, stage); }
  __device__ __forceinline__ std::uint32_t empty_values(int stage) const { return barrier(3, stage); }

  // By one thread.
  __device__ __forceinline__ void create_barriers() const {
    for (int stage = 0; stage < Config::stages; ++stage) {
      barrier::init(full_keys(stage), 1);
      barrier::init(full_values(stage), 1);
      barrier::init(empty_keys(stage), Config::warps);
      barrier::init(empty_values(stage), Config::warps);
    }
    barrier::publish();
  }

 private:
  __device__ __forceinline__ std::uint32_t barrier(int kind, int stage) const {
    return begin_ + kPlaces.barriers + (kind * Config::stages + stage) * barrier::kBytes;
  }

  std::uint32_t begin_;
};

// The producer's thread copies `count` tiles of the workspace from `tile` on, as far ahead as there are
// stages.
template <class Config>
__device__ __forceinline__ void copy_fp8_tiles(const Fp8Shared<Config>& shared, const std::uint8_t* workspace,
                                               std::int64_t tile, int count) {
  constexpr Fp8Tiles tiles = Fp8Shared<Config>::kTiles;
  PipelineStage<Config::stages> stage;
#pragma unroll 1
  for (int i = 0; i < count; ++i, ++tile, stage.advance()) {
    barrier::wait_patiently(shared.empty_keys(stage.index), stage.parity ^ 1);
    barrier::arrive_with_copy(shared.full_keys(stage.index), shared.keys(stage.index),
                              workspace + tiles.keys(tile), tiles.keys_bytes());
    barrier::wait_patiently(shared.empty_values(stage.index), stage.parity ^ 1);
    barrier::arrive_with_copy(shared.full_values(stage.index), shared.values(stage.index),
                              workspace + tiles.values(tile), tiles.operand_bytes());
  }
}

// How far a consumer warp is: which tiles of keys and of values it reads next. All warps release all tiles.
template <class Config>
class Fp8Stream {
 public:
  __device__ __forceinline__ Fp8Stream(const Fp8Shared<Config>& shared, int lane)
      : shared_(shared), lane_(lane) {}

  // The tile's address in shared memory, where it has arrived; behind keys lie the tile's scales.
  __device__ __forceinline__ std::uint32_t wait_keys() const {
    barrier::wait(shared_.full_keys(keys_.index), static_cast<int>(keys_.parity));
    return shared_.keys(keys_.index);
  }
  __device__ __forceinline__ std::uint32_t wait_values() const {
    barrier::wait(shared_.full_values(values_.index), static_cast<int>(values_.parity));
    return shared_.values(values_.index);
  }
  __device__ __forceinline__ Fp8TileScales scales() const {
    return __builtin_bit_cast(Fp8TileScales, ptx::load_shared<4>(shared_.keys(keys_.index) +
                                                                 Fp8Shared<Config>::kTiles.operand_bytes()));
  }
  // Once this warp's matmuls of the tile are complete.
  __device__ __forceinline__ void release_keys() {
    if (lane_ == 0) barrier::arrive(shared_.empty_keys(keys_.index));
    keys_.advance();
  }
  __device__ __forceinline__ void release_values() {
    if (lane_ == 0) barrier::arrive(shared_.empty_values(values_.index));
    values_.advance();
  }
  // A tile of which the warpgroup's rows see nothing. It has arrived before it is released: the warps that
  // read it are then in the same phase.
  __device__ __forceinline__ void skip() {
    wait_keys(), release_keys();
    wait_values(), release_values();
  }

 private:
  const Fp8Shared<Config>& shared_;
  int lane_;
  PipelineStage<Config::stages> keys_, values_;
};

}  // namespace hydrac::cuda
