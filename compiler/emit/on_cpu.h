// Tells programs for the cpu from those for a GPU.
#pragma once
#include "driver/compile.h"
#include "targets/target.h"

namespace hydrac::emit {

inline bool on_cpu(const driver::Compiled& compiled) {
  return targets::find(compiled.spec.target)->is_cpu();
}

}  // namespace hydrac::emit
