#include "optimizers/found_rate.h"

namespace hydrac::optimizers {

std::optional<FoundRate> found_rate(ops::RegionBuilder& b, const spec::Spec& spec) {
  if (!spec.train.optimizer.learning_rate.automatic) return std::nullopt;
  const auto scalar = [&](const char* name, ir::Role role) {
    return b.fresh(name, {}, ir::DType::f32, role);
  };
  const FoundRate rate{scalar("learning_rate.digits", ir::Role::optimizer_state),
                       scalar("learning_rate.unit", ir::Role::optimizer_state),
                       scalar("learning_rate.trial", ir::Role::state)};
  ir::StatePorts& state = b.graph().state;
  state.rate_digits = rate.digits.value;
  state.rate_unit = rate.unit.value;
  state.rate_trial = rate.trial.value;
  return rate;
}

}  // namespace hydrac::optimizers
