// The matmul policy of a family.
#pragma once
#include "cuda/attention/matmul_mma.cuh"
#include "cuda/attention/matmul_plain.cuh"
#include "cuda/attention/matmul_wgmma.cuh"

namespace hydrac::cuda {

template <class Config, AttentionFamily family = Config::family>
struct MatmulOf;
template <class Config>
struct MatmulOf<Config, AttentionFamily::plain> {
  using Type = PlainMatmul<Config>;
};
template <class Config>
struct MatmulOf<Config, AttentionFamily::mma> {
  using Type = MmaMatmul<Config>;
};
template <class Config>
struct MatmulOf<Config, AttentionFamily::hopper> {
  using Type = WgmmaMatmul<Config>;
};

}  // namespace hydrac::cuda
