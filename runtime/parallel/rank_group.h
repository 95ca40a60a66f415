// The ranks of a run that do something together.
#pragma once

namespace hydrac::runtime {

// `tensor`: ranks that share layers, which are consecutive ones. `data`: those at the same place among these,
// which share a step's micro-batches. Where nothing else is said, all ranks are one data group.
enum class RankGroup { data, tensor };

}  // namespace hydrac::runtime
