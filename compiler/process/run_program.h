// Other programs that hydrac runs: a C++ compiler, CMake, the oracle.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/child_process.h"

namespace hydrac {

// Destination of a program's output.
enum class Says {
  to_screen,      // where hydrac's own outputs go
  only_errors,    // its standard output nowhere
  to_caller,      // its standard output to the caller, errors to the screen
  all_to_caller,  // both outputs to the caller
};

struct Ended : runtime::ChildEnd {  // code 127: there is no such program
  std::string said;                 // what went to the caller
};

// Runs `words`, the first of them a path or a name in $PATH, without a shell, and waits for its end.
// runtime::RunError if no process can be created.
Ended run_program(std::vector<std::string> words, Says says);

}  // namespace hydrac
