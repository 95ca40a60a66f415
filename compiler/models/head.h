// The model's output and its loss.
#pragma once
#include "models/component.h"

namespace hydrac::models {

struct HeadParameters {
  ValueId weight = ir::kNoValue, bias = ir::kNoValue;  // [V,C], or the token embedding when tied; [O,C], [O]
};
// `vocab`: rows of the matrix of a language model.
HeadParameters declare_head(Declarer&, const spec::Model&, int64_t vocab, ValueId token_embedding);

// Logits or predictions. `into`: an existing use for them, or none.
Use head(ops::RegionBuilder&, const Build&, Use hidden, Use into = {});
Use loss_rows(ops::RegionBuilder&, const Build&, Use predictions, double label_smoothing);

}  // namespace hydrac::models
