// The processes that train together, as those who start them say: torchrun, mpirun, srun, or rank 0 itself.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hydrac::runtime {

inline constexpr int kMostRanks = 256;

struct World {
  int rank = 0, size = 1;
  std::string meeting;   // that all ranks of this run know, and no other run
  std::string launcher;  // "torchrun", "mpirun", "srun", "hydrac"
  int errors = 2;        // a descriptor of the standard error of whoever started the run
};

// What the environment of this process says; nullopt where nobody started it as one of several. InputError:
// variables that contradict each other, or ranks on several machines, whose memory nobody shares.
std::optional<World> world_of_environment();

// The world of a process that is going to start the other ranks itself.
World own_world(int size);

// "NAME=value" for rank `rank` of an own_world(), in torchrun's names. `errors`: World::errors of that rank.
std::vector<std::string> environment_of(const World& world, int rank, int errors);

}  // namespace hydrac::runtime
