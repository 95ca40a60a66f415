// Facts about each optimizer beside its update, which is in optimizers/: its defaults, the keys it reads, and
// how its steps depend on gradients.
#pragma once
#include <array>

#include "spec/keys/enums.h"
#include "spec/keys/values.h"

namespace hydrac::spec {

struct OptimizerRow {
  Optimizer name;
  double learning_rate;
  Betas betas;
  double weight_decay, momentum;
  bool reads_betas, reads_eps, reads_momentum;
  bool divides_by_gradient;  // a gradient that is all rounding error makes a whole step in any direction
  bool takes_signs;
};

inline constexpr auto kOptimizers = std::to_array<OptimizerRow>({
    {Optimizer::adamw, 3e-4, {0.9, 0.95}, 0.1, 0.9, true, true, false, true, false},
    {Optimizer::lion, 1e-4, {0.9, 0.99}, 0.1, 0.9, true, false, false, true, true},
    {Optimizer::sgd, 0.1, {0.9, 0.95}, 0, 0.9, false, false, true, false, false},
    {Optimizer::muon, 3e-4, {0.9, 0.95}, 0.1, 0.95, true, true, true, true, false},
});
static_assert(has_a_row_for_each_word(kOptimizers), "an optimizer has no row, or another's");

constexpr const OptimizerRow& row_of(Optimizer optimizer) {
  return kOptimizers[static_cast<size_t>(optimizer)];
}

}  // namespace hydrac::spec
