// cuDNN's refusal, apart from failures: a caller that has another way can take it.
#pragma once
#include "runtime/error.h"

namespace hydrac::runtime::cudnn {

// The problem is sound, but cuDNN has nothing that does it here: on this GPU, in this version, in this shape.
struct UnsupportedError : RunError {
  using RunError::RunError;
};

}  // namespace hydrac::runtime::cudnn
