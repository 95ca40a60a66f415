#include "runtime/parallel/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// Tells a rank that rank 0 started it: the descriptor of rank 0's standard error.
constexpr const char* kStartedByRank0 = "HYDRAC_STARTED_BY_RANK_0";

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
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

// `local`: the variable that counts the ranks of this machine, where the launcher sets one.
World world_of(const char* launcher, const char* rank, const char* size, const char* local,
               std::string meeting) {
  World world;
  world.size = number(size, 1, kMostRanks);
  world.rank = number(rank, 0, world.size - 1);
  world.launcher = launcher;
  world.meeting = std::move(meeting);
  if (variable(local) && number(local, 1, kMostRanks) != world.size)
    throw InputError(
        fmt::format("{} started {} of {} ranks on this machine ({}): ranks exchange gradients "
                    "through memory that they share, so all must be on one machine",
                    launcher, *variable(local), world.size, local));
  return world;
}

}  // namespace

std::optional<World> world_of_environment() {
  if (variable("RANK") && variable("WORLD_SIZE")) {
    const bool own = variable(kStartedByRank0).has_value();
    World world = world_of(
        own ? "hydrac" : "torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
        fmt::format("{}:{} {}", variable("MASTER_ADDR").value_or("localhost"),
                    variable("MASTER_PORT").value_or("29500"), variable("TORCHELASTIC_RUN_ID").value_or("")));
    if (own) world.errors = number(kStartedByRank0, 0, 1 << 20);
    return world;
  }
  if (variable("OMPI_COMM_WORLD_RANK"))
    return world_of("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                    variable("PMIX_NAMESPACE").value_or(fmt::format("children of process {}", ::getppid())));
  // A batch script has most of these variables too; only a step, which srun starts, has its tasks'.
  if (variable("SLURM_STEP_ID") && variable("SLURM_PROCID") && variable("SLURM_STEP_NUM_TASKS")) {
    if (const auto nodes = variable("SLURM_STEP_NUM_NODES"); nodes && *nodes != "1")
      throw InputError(
          fmt::format("srun started ranks on {} machines (SLURM_STEP_NUM_NODES): ranks exchange "
                      "gradients through memory that they share, so all must be on one machine",
                      *nodes));
    return world_of("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "",
                    fmt::format("{}.{}", variable("SLURM_JOB_ID").value_or(""), *variable("SLURM_STEP_ID")));
  }
  return std::nullopt;
}

// A run is known by its process: MASTER_PORT is a name, since ranks on one machine need no port.
World own_world(int size) {
  return {0, size, fmt::format("localhost:{} ", ::getpid()), "hydrac"};
}

std::vector<std::string> environment_of(const World& world, int rank, int errors) {
  return {fmt::format("RANK={}", rank),
          fmt::format("WORLD_SIZE={}", world.size),
          fmt::format("LOCAL_RANK={}", rank),
          fmt::format("LOCAL_WORLD_SIZE={}", world.size),
          "MASTER_ADDR=localhost",
          fmt::format("MASTER_PORT={}", ::getpid()),
          "TORCHELASTIC_RUN_ID=",
          fmt::format("{}={}", kStartedByRank0, errors)};
}

}  // namespace hydrac::runtime
