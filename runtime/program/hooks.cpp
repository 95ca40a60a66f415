#include "runtime/program/hooks.h"

#include <cstring>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

void add_hook_metrics(StepResult& result, const std::vector<MetricText>& metrics, const std::byte* values) {
  for (size_t i = 0; i < metrics.size(); ++i) {
    float value = 0;
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    result.metrics.push_back({metrics[i], value});
  }
}

}  // namespace hydrac::runtime
