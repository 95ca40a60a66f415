#include "runtime/cpu/idle_threads.h"

#include <unistd.h>

#include <cstdlib>

namespace hydrac::runtime {

void let_idle_threads_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);  // where that is not possible, they go on spinning
}

}  // namespace hydrac::runtime
