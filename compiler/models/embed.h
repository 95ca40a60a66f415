// The model's input: token embedding or a projection of numeric features, learned positions, dropout.
#pragma once
#include "models/component.h"

namespace hydrac::models {

struct EmbeddingParameters {
  ValueId tokens = ir::kNoValue;                                         // [V,C]
  ValueId positions = ir::kNoValue;                                      // [P,C]
  ValueId features_weight = ir::kNoValue, features_bias = ir::kNoValue;  // series: [C,F], [C]
};
// `vocab`: rows of the token embedding.
EmbeddingParameters declare_embedding(Declarer&, const spec::Model&, int64_t vocab);

Use embed(ops::RegionBuilder&, const Build&, Use into);  // [B,T] or [B,T,F] -> [B,T,C]

}  // namespace hydrac::models
