// The reference training run: a few steps from given parameters on given data, everything worth comparing
// returned.
#pragma once
#include "oracle/job/job.h"
#include "oracle/job/safetensors.h"

namespace hydrac::oracle {

// `tensors` holds the parameters ("name.slot"), constants (the same way) and inputs
// ("name.s<step>.m<micro>"). Adds to `results` what the README lists. Throws JobError.
void verify(const Job& job, const SafetensorsFile& tensors, SafetensorsWriter& results);

}  // namespace hydrac::oracle
