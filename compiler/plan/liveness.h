// When each storage is alive, over the program with its loops unrolled.
#pragma once
#include <set>

#include "plan/plan.h"

namespace hydrac::plan {

// A storage's life slot by slot, in steps: every node of every iteration of every function is one step.
struct Life {
  std::map<int, Interval> slots;
  std::string function;
};

struct Liveness {
  std::map<ir::ValueId, Life> lives;  // of activations
  int steps = 0;
};

// `lingers`: storages that stay alive for half a layer's steps longer, at most to the function's end.
// Storages that a loop sends to the host ("transfer"), or fetches while the previous layer computes, stay
// alive for a whole layer more.
Liveness liveness_of(const ir::Graph& graph, const std::set<ir::ValueId>& lingers = {});

// How many physical slots keep all of a life's slots apart, and the intervals they are used in, in time
// order.
int slots_needed(const Life& life);
std::vector<Interval> merged_intervals(const Life& life);

}  // namespace hydrac::plan
