// A plan for a program on two branches. Memory that is used again at once orders the branches: the first
// waits until the second has read what lay there.
#pragma once
#include <set>

#include "plan/plan.h"

namespace hydrac::plan {

// make_plan(graph), but that what the second branch touches (`beside`, storages) stays for half a layer
// longer, if the arena then grows by little and is at most `most_bytes`.
Plan roomy_plan(const ir::Graph& graph, const std::set<ir::ValueId>& beside, int64_t most_bytes);

}  // namespace hydrac::plan
