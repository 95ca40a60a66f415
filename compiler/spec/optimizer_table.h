// What the spec language knows of each optimizer: its defaults, and which keys it reads. Its update is in
// optimizers/.
#pragma once
#include <array>

#include "spec/enums.h"
#include "spec/values.h"

namespace hydrac::spec {

struct OptimizerRow {
  Optimizer name;
  double learning_rate;
  Betas betas;
  double weight_decay;
  bool reads_betas, reads_eps, reads_momentum;
};

inline constexpr auto kOptimizers = std::to_array<OptimizerRow>({
    {Optimizer::adamw, 3e-4, {0.9, 0.95}, 0.1, true, true, false},
    {Optimizer::lion, 1e-4, {0.9, 0.99}, 0.1, true, false, false},
    {Optimizer::sgd, 0.1, {0.9, 0.95}, 0, false, false, true},
});
static_assert(has_a_row_for_each_word(kOptimizers), "an optimizer has no row, or another's");

constexpr const OptimizerRow& row_of(Optimizer optimizer) {
  return kOptimizers[static_cast<size_t>(optimizer)];
}

}  // namespace hydrac::spec
