// Dropout's constants: the threshold that a probability becomes, and the random key of a place in the model.
#pragma once
#include <cstdint>

#include "ir/graph.h"

namespace hydrac::ops {

// A site's random key is made from site * kSiteStride + layer, so that layers do not share bits.
inline constexpr int64_t kSiteStride = 65536;

// An element is dropped when its 16 random bits are below this: p is taken in steps of 2^-16.
uint32_t dropout_threshold(double p);

// The same as kernels say them, and what elements that stay are multiplied by.
ir::Number drop_below(const ir::Number& p);
ir::Number keep_scale(const ir::Number& p);

// The probability that an attention node drops a weight with; no number of the spec where it is 0.
ir::Number attention_dropout(const ir::Node& attention);

}  // namespace hydrac::ops
