// When a run has gone wrong for good: numbers that are none, and steps that are skipped without end.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/log/metrics.h"

namespace hydrac::runtime {

// So many mean that no loss scale helps: each of them halves it.
inline constexpr int64_t kMostSkippedInARow = 50;

// Steps that dynamic loss scaling skipped: of the whole run so far, and of its last steps without a break.
struct SkippedSteps {
  int64_t total = 0, in_a_row = 0;

  void count(bool skipped);
};

// The reason to end the run after the step of this record, and what to change; nullopt if all is well. A
// skipped step's own loss and gradient norm may be anything, they have changed nothing. A few skipped steps
// in a row are normal when a run starts, as each halves the scale; 50 mean that no scale helps.
std::optional<std::string> divergence(const MetricsRecord& record, bool skipped, const SkippedSteps& steps);

}  // namespace hydrac::runtime
