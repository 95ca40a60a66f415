// The ranks of a run that do something together.
#pragma once

namespace hydrac::runtime {

// `tensor`: consecutive ranks that share layers. `data`: ranks at the same place in their tensor groups,
// which share a step's micro-batches. Without tensor parallelism all ranks are one data group.
enum class RankGroup { data, tensor };

}  // namespace hydrac::runtime
