#include "runtime/parallel/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "runtime/error.h"
#include "runtime/parallel/hosts.h"
#include "runtime/parallel/slurm.h"

namespace hydrac::runtime {

namespace {

// Tells a rank that rank 0 started it: the descriptor of rank 0's standard error.
constexpr const char* kStartedByRank0 = "HYDRAC_STARTED_BY_RANK_0";

constexpr int kMostPort = 65535;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

// A stranger who finds the port does not know it.
std::string token_of_environment() {
  constexpr size_t kMost = 255;
  const std::string token = variable("HYDRAC_RENDEZVOUS_TOKEN").value_or("");
  if (token.size() > kMost || token.find('\n') != std::string::npos)
    throw InputError(fmt::format(
        "the environment variable HYDRAC_RENDEZVOUS_TOKEN must be one line of at most {} bytes", kMost));
  return token;
}

int number(const char* name, int least, int most) {
  const std::string text = variable(name).value_or("");
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw InputError(fmt::format("the environment variable {} is \"{}\", no number from {} to {}", name, text,
                                 least, most));
  return value;
}

World world_of(const char* launcher, const char* rank, const char* size, std::string meeting) {
  World world;
  world.size = number(size, 1, kMostRanks);
  world.rank = number(rank, 0, world.size - 1);
  world.launcher = launcher;
  world.meeting = std::move(meeting);
  world.token = token_of_environment();
  return world;
}

// MASTER_PORT is torchrun's own where its agent keeps a store there, so the next one is ours.
std::optional<Endpoint> master() {
  const std::optional<std::string> host = variable("MASTER_ADDR");
  if (!host || !variable("MASTER_PORT")) return std::nullopt;
  const bool is_taken = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  return Endpoint{*host, number("MASTER_PORT", 1, kMostPort - 1) + (is_taken ? 1 : 0)};
}

// The first host of the step, which has rank 0, and a port that is the step's.
std::optional<Endpoint> master_of_slurm() {
  const std::string host =
      first_slurm_host(variable("SLURM_STEP_NODELIST").value_or(variable("SLURM_JOB_NODELIST").value_or("")));
  if (host.empty()) return std::nullopt;
  constexpr int kFirst = 20000, kPorts = 10000;  // below those that Linux gives to connections
  const auto low_digits = [](const char* name) {
    return static_cast<int>(std::strtoull(variable(name).value_or("0").c_str(), nullptr, 10) % kPorts);
  };
  const int offset = low_digits("SLURM_JOB_ID") + 101 * low_digits("SLURM_STEP_ID");
  return Endpoint{host, kFirst + offset % kPorts};
}

Endpoint rendezvous_of(const char* launcher, const std::optional<Endpoint>& of_launcher) {
  if (const auto given = variable("HYDRAC_RENDEZVOUS")) {
    if (const auto endpoint = parse_endpoint(*given)) return *endpoint;
    throw InputError(fmt::format(
        "the environment variable HYDRAC_RENDEZVOUS is \"{}\", and no HOST:PORT such as node-1:29500",
        *given));
  }
  if (of_launcher) return *of_launcher;
  throw InputError(fmt::format(
      "{} started ranks on several hosts and does not say which of them has rank 0: set "
      "HYDRAC_RENDEZVOUS=HOST:PORT in the environment of all ranks, with a port that is free there",
      launcher));
}

// `local_rank`, `local_size`: the variables that number and count the ranks of this host.
HostPlace place_on_host(const World& world, std::string id, const char* local_rank, int local_size,
                        const std::optional<Endpoint>& master) {
  HostPlace place;
  place.id = std::move(id);
  place.ranks = local_size;
  place.rank = number(local_rank, 0, local_size - 1);
  if (world.rank == 0 && place.rank != 0)
    throw InputError(
        fmt::format("rank 0 must be the first rank of its host, and {} is {}", local_rank, place.rank));
  place.rendezvous = rendezvous_of(world.launcher.c_str(), master);
  place.address = variable("HYDRAC_ADDRESS").value_or("");
  return place;
}

World world_of_torchrun() {
  const bool own = variable(kStartedByRank0).has_value();
  World world = world_of(
      own ? "hydrac" : "torchrun", "RANK", "WORLD_SIZE",
      fmt::format("{}:{} {}", variable("MASTER_ADDR").value_or("localhost"),
                  variable("MASTER_PORT").value_or("29500"), variable("TORCHELASTIC_RUN_ID").value_or("")));
  if (own) world.errors = number(kStartedByRank0, 0, 1 << 20);
  if (world.token.empty()) world.token = variable("TORCHELASTIC_RUN_ID").value_or("");
  if (!variable("LOCAL_WORLD_SIZE")) return world;
  const int local = number("LOCAL_WORLD_SIZE", 1, world.size);
  if (local == world.size) return world;
  const std::string id =
      variable("GROUP_RANK") ? fmt::format("{}", number("GROUP_RANK", 0, kMostRanks - 1)) : host_name();
  world.host = place_on_host(world, id, "LOCAL_RANK", local, master());
  return world;
}

World world_of_mpirun() {
  World world =
      world_of("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
               variable("PMIX_NAMESPACE").value_or(fmt::format("children of process {}", ::getppid())));
  if (!variable("OMPI_COMM_WORLD_LOCAL_SIZE")) return world;
  const int local = number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, world.size);
  if (local == world.size) return world;
  world.meeting = variable("PMIX_NAMESPACE").value_or("mpirun");  // a parent's number is its host's
  world.host = place_on_host(world, host_name(), "OMPI_COMM_WORLD_LOCAL_RANK", local, master());
  return world;
}

World world_of_srun() {
  World world =
      world_of("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
               fmt::format("{}.{}", variable("SLURM_JOB_ID").value_or(""), *variable("SLURM_STEP_ID")));
  if (!variable("SLURM_STEP_NUM_NODES") || number("SLURM_STEP_NUM_NODES", 1, world.size) == 1) return world;
  const int node = number("SLURM_NODEID", 0, kMostRanks - 1);
  const std::string tasks = variable("SLURM_STEP_TASKS_PER_NODE").value_or("");
  const std::optional<int> local = slurm_count(tasks, node);
  if (!local || *local < 1 || *local > world.size)
    throw InputError(fmt::format(
        "the environment variable SLURM_STEP_TASKS_PER_NODE is \"{}\", which does not say how many "
        "ranks node {} (SLURM_NODEID) has",
        tasks, node));
  const std::optional<Endpoint> given = master();
  world.host = place_on_host(world, fmt::format("{}", node), "SLURM_LOCALID", *local,
                             given ? given : master_of_slurm());
  return world;
}

}  // namespace

std::optional<World> world_of_environment() {
  if (variable("RANK") && variable("WORLD_SIZE")) return world_of_torchrun();
  if (variable("OMPI_COMM_WORLD_RANK")) return world_of_mpirun();
  // A batch script has most of these variables too; only a step, which srun starts, has its tasks'.
  if (variable("SLURM_STEP_ID") && variable("SLURM_PROCID") && variable("SLURM_STEP_NUM_TASKS"))
    return world_of_srun();
  return std::nullopt;
}

int ranks_of_this_host(int count) {
  const std::optional<World> started = world_of_environment();
  return started && started->size == count ? started->local_size() : count;
}

// A run is known by its process: MASTER_PORT is a name, since ranks on one machine need no port.
World own_world(int size) {
  World world;
  world.size = size;
  world.meeting = fmt::format("localhost:{} ", ::getpid());
  world.launcher = "hydrac";
  world.token = new_secret();
  return world;
}

std::vector<std::string> environment_of(const World& world, int rank, int errors) {
  return {fmt::format("RANK={}", rank),
          fmt::format("WORLD_SIZE={}", world.size),
          fmt::format("LOCAL_RANK={}", rank),
          fmt::format("LOCAL_WORLD_SIZE={}", world.size),
          "MASTER_ADDR=localhost",
          fmt::format("MASTER_PORT={}", ::getpid()),
          "TORCHELASTIC_RUN_ID=",
          fmt::format("HYDRAC_RENDEZVOUS_TOKEN={}", world.token),
          fmt::format("{}={}", kStartedByRank0, errors)};
}

}  // namespace hydrac::runtime
