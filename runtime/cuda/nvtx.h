// NVTX: named ranges of host work, which Nsight Systems and Nsight Compute show beside the kernels that it
// launches. A profiler names its library in $NVTX_INJECTION64_PATH; without one nothing is done.
#pragma once
#include <string>

namespace hydrac::runtime::cuda {

// True if a profiler listens. The first call loads its library.
bool nvtx_listens();

// From its construction to its destruction, on the thread that made it. Ranges nest.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace hydrac::runtime::cuda
