#include <unistd.h>

#include <cstdlib>

#include "cli/verb.h"

namespace {

// OpenMP's threads spin between kernels by default. Where another process wants the processor too, the
// spinning takes it from the very thread that is waited for: measured, steps became 3 to 8 times slower on a
// busy machine, and sleeping costs an idle one 2%. libgomp reads the policy while it is loaded, before main,
// so the program starts itself again.
void sleep_instead_of_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);  // where that is not possible, it goes on spinning
}

}  // namespace

int main(int argc, char** argv) {
  sleep_instead_of_spinning(argv);
  return hydrac::cli::main({argv + 1, argv + argc});
}
