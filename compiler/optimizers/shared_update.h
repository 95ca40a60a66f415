// Work before and after an update that ranks share (parallel.zero), in which each updates its own rows of the
// parameters.
#pragma once
#include <vector>

#include "models/pack.h"
#include "ops/builder.h"

namespace hydrac::optimizers {

// Before the update: copies the rows that a rank updates, where it does not have them already.
std::vector<ir::Region> take_own_parts(ir::Graph& graph, const models::Pack& pack);

// After it: gathers the rows that each rank has updated; passes/precision does so with working copies.
std::vector<ir::Region> gather_parts(ir::Graph& graph, const models::Pack& pack);

// Zeroes gradients that are whole on the rank: the next step's micro-batches add to them.
void zero_shared_gradients(ops::RegionBuilder& b, const models::Pack& pack);

// The index of each of the rank's rows in the group as one process has it: i32 [own rows]. `rank`: i32 [].
ir::Use own_places(ops::RegionBuilder& b, const models::ParameterGroup& group, ir::Use rank);

}  // namespace hydrac::optimizers
