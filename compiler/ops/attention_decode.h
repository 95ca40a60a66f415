// Properties of an attention_decode node that other rooms ask for.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace hydrac::ops {

// The page table of a cache in pages: input 6, where the node has the flag "paged".
std::optional<ir::Use> page_table(const ir::Node& node);

// Rope's tables cos and sin, the last two inputs, where q and k are not rotated yet: the node rotates them by
// the angles of `positions`. Its flag "interleaved" is that of the op rope.
struct DecodeRotation {
  ir::Use cos, sin;
};
std::optional<DecodeRotation> rotation_in_decode(const ir::Node& node);

}  // namespace hydrac::ops
