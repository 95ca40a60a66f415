// The kernel before an update: the step's learning rate, the clip factor, and whether the step is skipped.
#pragma once
#include <optional>

#include "models/transformer.h"
#include "ops/builder.h"
#include "optimizers/adaptive_rate.h"
#include "optimizers/found_rate.h"
#include "optimizers/loss_scale.h"

namespace hydrac::optimizers {

// Scalars of one step, f32 [] where nothing else is said.
struct StepScalars {
  ir::Use learning_rate;
  ir::Use clip;  // what gradients are multiplied by, the loss scale's inverse included
  ir::Use grad_norm, step_loss;
  ir::Use skipped;       // i32 []
  ir::Use rounding_key;  // u32 []; absent where nothing is rounded stochastically
};

// `step` i32 [], `square` of gradient_square(). The loss starts anew for the next step.
StepScalars prepare_update(ops::RegionBuilder& b, const models::Model& model, ir::Use step, ir::Use square,
                           const std::optional<ScaledStep>& scaled,
                           const std::optional<AdaptiveRate>& adaptive,
                           const std::optional<FoundRate>& found);

}  // namespace hydrac::optimizers
