// Kernels of a program that are run on small data before they are used, and compared with the float64
// interpreter of their bodies, because compilers make mistakes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace hydrac::targets {

// A kernel on the first `rows` rows of the node that one of its calls computes.
struct Trial {
  int kernel = -1;  // position in Program::kernels
  const ir::Node* node = nullptr;
  const program::Call* call = nullptr;
  int64_t rows = 1;
};

struct Trials {
  std::vector<Trial> trials;
  std::vector<std::string> untried;  // kernels without a body (templates), and those of too many columns
};

// For a program whose calls are its graph's nodes, one for one, as the cpu's are. `graph` and `program` must
// outlive the result.
Trials trials_of(const ir::Graph& graph, const program::Program& program);

}  // namespace hydrac::targets
