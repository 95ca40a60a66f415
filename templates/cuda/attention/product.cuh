// The product policy of a family.
#pragma once
#include "cuda/attention/product_mma.cuh"
#include "cuda/attention/product_plain.cuh"
#include "cuda/attention/product_wgmma.cuh"

namespace hydrac::cuda {

template <class Config, AttentionFamily family = Config::family>
struct ProductOf;
template <class Config>
struct ProductOf<Config, AttentionFamily::plain> {
  using Type = PlainProduct<Config>;
};
template <class Config>
struct ProductOf<Config, AttentionFamily::mma> {
  using Type = MmaProduct<Config>;
};
template <class Config>
struct ProductOf<Config, AttentionFamily::hopper> {
  using Type = WgmmaProduct<Config>;
};

}  // namespace hydrac::cuda
