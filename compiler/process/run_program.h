// Other programs that hydrac runs: a C++ compiler, CMake, the oracle.
#pragma once
#include <string>
#include <vector>

namespace hydrac {

// Destination of a program's output.
enum class Says {
  to_screen,      // where hydrac's own outputs go
  only_errors,    // its standard output nowhere
  to_caller,      // its standard output to the caller, errors to the screen
  all_to_caller,  // both outputs to the caller
};

struct Ended {
  int code = 0;      // 127: there is no such program; 128: a signal ended it
  std::string said;  // what went to the caller
  int signal = 0;    // that ended it
};

// "was killed by signal 9 (Killed)", "ended with exit code 1".
std::string describe_end(const Ended& ended);

// Runs `words`, the first of them a path or a name that $PATH finds, without a shell, and waits for its end.
// runtime::RunError when no process can be made.
Ended run_program(std::vector<std::string> words, Says says);

}  // namespace hydrac
