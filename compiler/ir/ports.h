// Values that the host writes and reads: the graph's value for each port of runtime/program/ports.def, and
// the metrics that a program reports under names of its own.
#pragma once
#include "ir/value_id.h"
#include "runtime/log/metric.h"

namespace hydrac::ir {

// The program does not have those that are kNoValue.
struct InputPorts {
#define HYDRAC_INPUT(name) ValueId name = kNoValue;
#include "runtime/program/ports.def"
  ValueId any_targets() const {
    return targets != kNoValue ? targets : float_targets;
  }
};
struct StatePorts {
#define HYDRAC_STATE(name) ValueId name = kNoValue;
#include "runtime/program/ports.def"
};
struct ResultPorts {
#define HYDRAC_RESULT(name) ValueId name = kNoValue;
#include "runtime/program/ports.def"
};

// f32 [], left by "update": what metrics.jsonl, TensorBoard, the line of progress and reports show of a step.
struct Metric {
  runtime::MetricText text;
  ValueId value = kNoValue;
};

}  // namespace hydrac::ir
