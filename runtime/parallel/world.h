// The processes that train together, as those who start them say: torchrun, mpirun, srun, or rank 0 itself.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/parallel/tcp.h"

namespace hydrac::runtime {

inline constexpr int kMostRanks = 256;

// The place of a rank whose run has ranks on several hosts.
struct HostPlace {
  std::string id;           // the same on all ranks of a host, and no other's: its number, or its name
  int rank = 0, ranks = 1;  // this rank among those of its host; 0 leads these
  Endpoint rendezvous;      // where rank 0 waits for the ranks of other hosts
  std::string address;  // HYDRAC_ADDRESS: this host's, for the other ones; empty: the one that reaches rank 0
};

struct World {
  int rank = 0, size = 1;
  std::string meeting;            // that all ranks of this run know, and no other run
  std::string token;              // a secret of the run's ranks; "" where no environment has one
  std::string launcher;           // "torchrun", "mpirun", "srun", "hydrac"
  int errors = 2;                 // a descriptor of the standard error of whoever started the run
  std::optional<HostPlace> host;  // absent: all ranks are on this host

  int local_rank() const { return host ? host->rank : rank; }
  int local_size() const { return host ? host->ranks : size; }
};

// This process's place according to its environment; nullopt if no launcher started it as one of several.
// InputError: variables that contradict each other, or several hosts without an address of rank 0.
std::optional<World> world_of_environment();

// Ranks, of a run's `count`, that share this host with this process: all if no launcher says otherwise.
int ranks_of_this_host(int count);

// The world of a process that is going to start the other ranks itself.
World own_world(int size);

// "NAME=value" for rank `rank` of an own_world(), in torchrun's names. `errors`: World::errors of that rank.
std::vector<std::string> environment_of(const World& world, int rank, int errors);

}  // namespace hydrac::runtime
