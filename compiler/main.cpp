#include "cli/verb.h"
#include "runtime/cpu/idle_threads.h"

int main(int argc, char** argv) {
  hydrac::runtime::let_idle_threads_sleep(argv);
  return hydrac::cli::main({argv + 1, argv + argc});
}
