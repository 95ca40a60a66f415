// A learning rate that follows the loss (train.lr_scheduler.name: adaptive).
#pragma once
#include <optional>

#include "ir/body_builder.h"
#include "ops/builder.h"
#include "spec/spec.h"

namespace hydrac::optimizers {

// Scalars that steps pass on, f32 [], zeros at first.
struct AdaptiveRate {
  ir::Use cut;   // what the rate has lost, as a share of the whole one
  ir::Use mean;  // of the losses since the last look
  ir::Use best;  // the lowest mean at which one has looked
};

// Absent where the schedule is another.
std::optional<AdaptiveRate> adaptive_rate(ops::RegionBuilder&, const spec::Spec&);

// Emits what follows a step's rate: after warmup, every `patience` steps, the mean of their losses is looked
// at. One that is not lower than the best so far by the share `threshold` of it cuts the rate to `factor`
// times what it was, but not below min_ratio. `step` i32 [], `loss` of the step f32 []; one that is not
// finite (fp16 ran out of range) does not count, and a mean of none decides nothing.
void follow_loss(ops::RegionBuilder&, const spec::Spec&, const AdaptiveRate&, ir::Use step, ir::Use loss);

}  // namespace hydrac::optimizers
