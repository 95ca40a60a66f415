// How dropout turns its probability and its place in the model into bits.
#pragma once
#include <cstdint>

namespace hydrac::ops {

// A site's random key is made from site * kSiteStride + layer, so that layers do not share bits.
inline constexpr int64_t kSiteStride = 65536;

// An element is dropped when its 16 random bits are below this: p is taken in steps of 2^-16.
uint32_t dropout_threshold(double p);

}  // namespace hydrac::ops
