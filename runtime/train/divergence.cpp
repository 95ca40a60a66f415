#include "runtime/train/divergence.h"

#include <fmt/format.h>

#include <cmath>

namespace hydrac::runtime {

void SkippedSteps::count(bool skipped) {
  total += skipped;
  in_a_row = skipped ? in_a_row + 1 : 0;
}

std::optional<std::string> divergence(const MetricsRecord& record, bool skipped, const SkippedSteps& steps) {
  if (steps.in_a_row >= kMostSkippedInARow) {
    return fmt::format(
        "steps {} to {} were all skipped: their gradients hold NaN or infinite values however far the loss "
        "is scaled down; write optimizations.precision: bf16 (fp32 where the device has no bf16), or lower "
        "train.optimizer.learning_rate",
        record.step - steps.in_a_row + 1, record.step);
  }
  struct Value {
    const char* name;
    std::optional<double> value;
  };
  for (const auto& [name, value] : {Value{"loss", skipped ? std::nullopt : record.loss},
                                    Value{"gradient norm", skipped ? std::nullopt : record.grad_norm},
                                    Value{"validation loss", record.eval_loss}}) {
    if (!value || std::isfinite(*value)) continue;
    return fmt::format(
        "step {}: the {} is {}, so the training diverged; lower train.optimizer.learning_rate or raise "
        "train.lr_scheduler.warmup_steps",
        record.step, name, std::isnan(*value) ? "NaN" : "infinite");
  }
  return std::nullopt;
}

}  // namespace hydrac::runtime
