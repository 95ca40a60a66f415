// A mixture of recursions (Bae et al., 2025), where attention runs once: after it, each token takes one to R
// passes through the block's mlp, of the same weights. All passes compute all tokens; where a token's last
// pass is over, what later ones make of it is left out.
#pragma once
#include "models/component.h"

namespace hydrac::models {

struct RecursionParameters {
  ValueId router_weight = ir::kNoValue, router_bias = ir::kNoValue;  // [C], [1]
  std::vector<ValueId> embeddings;                                   // of each pass: [C], added to the stream
};
RecursionParameters declare_recursions(Declarer&, const spec::Model&);

// The stream x [B,T,C] after attention -> after the mlp's passes, which goes into the stream's use `next`.
Use add_recursions(ops::RegionBuilder&, const Build&, Use x, Use next);

}  // namespace hydrac::models
