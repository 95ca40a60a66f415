// A mixture of experts: a router chooses some of a block's mlps for each token, and their outputs are added
// up, each times its weight. No token is left out, whatever the router does: the experts' rows lie one expert
// behind the other in room for all of them.
#pragma once
#include "models/component.h"

namespace hydrac::models {

// Matrices of E experts lie one below the other.
struct MoeParameters {
  ValueId router_weight = ir::kNoValue;  // [E, C]
  ValueId up_weight = ir::kNoValue;      // [E*I, C]; gated: [E*2I, C], of each expert gate first
  ValueId down_weight = ir::kNoValue;    // [E*C, I]
};
// The matrices that write to the stream start with `residual_deviation`.
MoeParameters declare_moe(Declarer&, const spec::Model&, double residual_deviation);

// As mlp_block().
Use moe_block(ops::RegionBuilder&, const Build&, Use x, const std::string& name);

}  // namespace hydrac::models
