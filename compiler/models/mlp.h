// The mlp: up projection (gate and up packed for gated activations), activation, down projection.
#pragma once
#include "models/component.h"

namespace hydrac::models {

struct MlpParameters {
  ValueId up_weight = ir::kNoValue, up_bias = ir::kNoValue;      // [I, C]; gated: [2I, C], gate first
  ValueId down_weight = ir::kNoValue, down_bias = ir::kNoValue;  // [C, I]
};
// The matrix that writes to the stream starts with `residual_deviation`.
MlpParameters declare_mlp(Declarer&, const spec::Model&, double residual_deviation);

// The activation of x, which holds gate, then up where it is gated.
Use activate(ops::RegionBuilder&, const spec::HiddenAct&, Use x, const std::string& name);

// Normed [B,T,C] -> what it adds to the stream. `name`: what the names of its values begin with; a block may
// have it several times.
Use mlp_block(ops::RegionBuilder&, const Build&, Use x, const std::string& name);

}  // namespace hydrac::models
