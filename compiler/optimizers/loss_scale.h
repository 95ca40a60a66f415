// Dynamic loss scaling for half floats (Micikevicius et al., 2018), by the rules of PyTorch's GradScaler but
// on the device, without a host synchronization. The loss's gradient is multiplied by a scale so that small
// gradients do not underflow in fp16. A step whose gradients overflow is skipped and lowers the scale; many
// good steps in a row raise it. A skipped step leaves parameters and optimizer state as they are, but it is a
// step: the counter and the learning rate's schedule go on.
#pragma once
#include <cstdint>

#include "ir/body_builder.h"
#include "ops/builder.h"

namespace hydrac::optimizers {

// The defaults are torch.amp.GradScaler's. Powers of two scale without rounding.
struct LossScaling {
  double initial = 65536;  // what the target writes to Interface::loss_scale before the first step
  double growth = 2, backoff = 0.5;
  int64_t growth_interval = 2000;  // good steps in a row
};

// Scalars of one step.
struct ScaledStep {
  ir::Use scale;    // f32 []: that its gradients were multiplied by
  ir::Use skipped;  // i32 []: 1 when they overflowed
};

// Emits the kernel that judges a step by `square`, the sum of squares of its unscaled gradients (f32 []), and
// sets `loss_scale` (f32 []) for the next one. An infinity or NaN in any gradient shows in the sum.
ScaledStep adjust_loss_scale(ops::RegionBuilder& b, ir::Use loss_scale, ir::Use square,
                             const LossScaling& scaling);

// How an optimizer's kernel stores what a skipped step must leave as it is.
class SkipGuard {
 public:
  // Adds `skipped` to the node's inputs; before a BodyBuilder is made for it.
  SkipGuard(ir::Use skipped, ir::Node& node);

  // `after`, or in a skipped step `before`.
  ir::Term operator()(ir::Term before, ir::Term after) const;

 private:
  int input_;
};

}  // namespace hydrac::optimizers
