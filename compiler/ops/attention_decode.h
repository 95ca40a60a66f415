// What others ask of an attention_decode node.
#pragma once
#include "ir/graph.h"

namespace hydrac::ops {

// Whether q and k come without their position: with rope's tables cos and sin as inputs 6 and 7 the node
// turns them by the angles of `positions`, by pairs as its flag "interleaved" says, which is rope's.
bool rotates_in_decode(const ir::Node& node);

}  // namespace hydrac::ops
