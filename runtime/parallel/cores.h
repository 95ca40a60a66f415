// The processor cores that this process may run on, and those that it is told to (train.cpu_affinity).
#pragma once
#include <string>
#include <vector>

namespace hydrac::runtime {

// Cores that the process could use when it started: use_cores() does not change it.
int usable_cores();

// "", or why `cores` cannot be used: a core that this machine lacks, or that the process may not use
// (taskset, a container or a launcher limits it).
std::string problem_with_cores(const std::vector<int>& cores);

// The part of `cores` that rank `rank` of `ranks` runs on: an equal number for each, in order; what does not
// divide is left over. There are as many cores as ranks at least.
std::vector<int> cores_of_rank(const std::vector<int>& cores, int rank, int ranks);

// All threads of this process run on `cores` from here on, as do those that it makes. Does nothing where
// `cores` is empty. InputError with the problem.
void use_cores(const std::vector<int>& cores);

// While it lives, the calling thread may run on all cores that the process started with. Processes that it
// starts begin with these.
class OnAllCores {
 public:
  OnAllCores();
  ~OnAllCores();
  OnAllCores(const OnAllCores&) = delete;
  OnAllCores& operator=(const OnAllCores&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace hydrac::runtime
