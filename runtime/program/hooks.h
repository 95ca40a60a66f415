// Hooks of an emitted program: its owner's code within a step, with memory and metrics of its own.
#pragma once
#include <cstddef>
#include <vector>

#include "runtime/log/metric.h"

namespace hydrac::runtime {

struct StepResult;

// Memory where the program computes, zeros at first.
struct HookMemory {
  float* metrics = nullptr;      // one number for each of the hooks' metrics
  std::byte* scratch = nullptr;  // 16-byte aligned
};

// Adds the hooks' metrics to a step's result: `values` are theirs when the update ended, 4 bytes each.
void add_hook_metrics(StepResult& result, const std::vector<MetricText>& metrics, const std::byte* values);

}  // namespace hydrac::runtime
