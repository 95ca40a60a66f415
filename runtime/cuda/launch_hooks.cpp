#include "runtime/cuda/launch_hooks.h"

#include <string>

#include "runtime/cuda/stream.h"
#include "runtime/error.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

bool before_launch(CUstream_st* stream, bool overlaps) {
  before_call(stream);
  return overlaps && follows_kernels(stream);
}

void after_launch(const char* kernel, const char* error, CUstream_st* stream) {
  if (error != nullptr) throw RunError(std::string("kernel ") + kernel + " was not launched: " + error);
  after_call(stream);
}

}  // namespace hydrac::runtime::cuda
