// The processor cores that this process may run on, and those that it is told to (train.cpu_affinity).
#pragma once
#include <string>
#include <vector>

namespace hydrac::runtime {

// Cores that the process could use when it started: use_cores() does not change it.
int usable_cores();

// "", or why `cores` cannot be used: the machine lacks a core, or the process may not use it (because of
// taskset, a container or a launcher).
std::string problem_with_cores(const std::vector<int>& cores);

// The part of `cores` for rank `rank` of `ranks`: an equal number for each, in order; the remainder is
// unused. There must be at least as many cores as ranks.
std::vector<int> cores_of_rank(const std::vector<int>& cores, int rank, int ranks);

// Binds all threads of this process, and those it will create, to `cores`. Does nothing if `cores` is empty.
// InputError with the problem.
void use_cores(const std::vector<int>& cores);

// During its lifetime the calling thread may run on all cores that the process started with. Child processes
// inherit them.
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
