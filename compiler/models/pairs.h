// Objectives that learn from pairs of completions (docs/preferences.md): what they declare, and their loss.
#pragma once
#include "models/transformer.h"

namespace hydrac::models {

struct Build;

void declare_pairs(Model&);
// Into the ports of scores: log-probabilities of the batch's texts, of the losses of their tokens.
void score_pairs(ops::RegionBuilder&, const Build&, ops::Use losses);
// The loss of the batch's pairs, added to `loss`; what steps report, or for evaluations the pairs that the
// model ranks as the data does.
void pair_loss(ops::RegionBuilder&, const Build&, ops::Use losses, ir::ValueId loss);

}  // namespace hydrac::models
