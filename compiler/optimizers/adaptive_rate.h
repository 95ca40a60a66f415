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

// Emits the kernel that adapts the rate. After warmup, the mean loss of every `patience` steps is compared
// with the best so far. If it is not lower by the share `threshold`, the rate is multiplied by `factor`, but
// stays at least min_ratio. `step` i32 [], `loss` of the step f32 []. A loss that is not finite (fp16
// overflow) does not count, and a mean of none decides nothing.
void follow_loss(ops::RegionBuilder&, const spec::Spec&, const AdaptiveRate&, ir::Use step, ir::Use loss);

}  // namespace hydrac::optimizers
