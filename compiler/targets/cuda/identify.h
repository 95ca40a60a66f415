// Which target a GPU is.
#pragma once
#include "runtime/cuda/device.h"
#include "targets/target.h"

namespace hydrac::targets {

// By its name, where its memory is that target's too: the A100 of 40 GB is called as that of 80 GB, the GPU
// of a laptop as that of a desk, and a slice (MIG) as its whole card. Else by its arch, of which no size and
// no peak is known; nullptr when it is older than any that we know.
const Target* target_of(const runtime::cuda::DeviceInfo& device);

}  // namespace hydrac::targets
