// The reference training run: a few steps from given parameters on given data, everything worth comparing
// returned.
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "oracle/job/job.h"
#include "oracle/job/safetensors.h"

namespace hydrac::oracle {

// `tensors` holds the parameters ("name.slot"), constants (the same way) and inputs
// ("name.s<step>.m<micro>"). Adds to `results` what the README lists, under autocast once more when the job
// asks for it. Computes on `device`. Throws JobError.
void verify(const Job& job, const SafetensorsFile& tensors, c10::Device device, SafetensorsWriter& results);

// "cpu"; "cuda"; or "auto": a GPU when there is one. Throws JobError for another name, and for cuda without a
// GPU.
c10::Device find_device(const std::string& name);

}  // namespace hydrac::oracle
