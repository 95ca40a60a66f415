// The sum of squares over all gradients, whose root is the norm: on one process, and for ranks that share the
// update or layers.
#pragma once
#include "models/pack.h"
#include "models/transformer.h"
#include "ops/builder.h"

namespace hydrac::optimizers {

// f32 [], of unscaled gradients. `rank`: i32 [], used where ranks share the update.
ir::Use gradient_square(ops::RegionBuilder& b, const models::Model& model, const models::Pack& pack,
                        ir::Use rank);

}  // namespace hydrac::optimizers
