// A learning rate that a range test finds before training (train.optimizer.learning_rate: auto): the host
// writes it into the program's state, from where each step reads it.
#pragma once
#include <optional>

#include "ir/body_builder.h"
#include "ops/builder.h"
#include "spec/spec.h"

namespace hydrac::optimizers {

// Scalars, f32 []. Digits and unit are whole numbers, and the rate is digits / unit in float64. For a decimal
// number with few digits that quotient is the float64 that a spec's number parses to, so both train bit for
// bit alike.
struct FoundRate {
  ir::Use digits, unit;  // optimizer state: a checkpoint keeps the rate
  ir::Use trial;  // not 0 during the range test, whose steps take the rate as it is, without a schedule
};

// Absent where the spec says the rate.
std::optional<FoundRate> found_rate(ops::RegionBuilder&, const spec::Spec&);

}  // namespace hydrac::optimizers
