#include "runtime/log/monotonic.h"

#include <chrono>

namespace hydrac::runtime {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hydrac::runtime
