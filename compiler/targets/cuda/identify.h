// Identifies the target of a GPU.
#pragma once
#include "runtime/cuda/device.h"
#include "targets/target.h"

namespace hydrac::targets {

// The target with the GPU's name, if the memory matches too: the A100 of 40 GB has the name of that of 80 GB,
// a laptop's GPU that of the desktop's, and a MIG slice that of its card. Else the target of its arch, with
// unknown sizes and peaks; nullptr if it is older than all known ones.
const Target* target_of(const runtime::cuda::DeviceInfo& device);

}  // namespace hydrac::targets
