#include "runtime/app/run_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/exit_codes.h"
#include "runtime/log/output.h"
#include "runtime/parallel/cores.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"

namespace hydrac::runtime {

namespace {

// Everything that decides results and the run's length, and what the bits of rank 0's program depend on.
std::string agreement_of(const TrainSettings& settings, LaidOutProgram& program) {
  std::string text = settings.version + "\n";
  for (const auto& [name, value] : settings.train.identity) text += fmt::format("{} = {}\n", name, value);
  const std::filesystem::path& weights = settings.train.weights;
  if (std::error_code ignored; !weights.empty() && std::filesystem::exists(weights, ignored))
    text += fmt::format("{} = {}\n", kBaseIdentity, WeightFiles(weights).fingerprint());
  text += fmt::format("steps = {}\n", settings.train.max_steps);
  text += fmt::format("parallel.tensor = {}\n", program.layout().tensor_ranks);
  text += fmt::format("parallel.zero = {}\n", program.layout().state.rank ? 1 : 0);
  text += fmt::format("output = {}\n", settings.train.run_dir.generic_string());
  const RecordedChoices made = program.choices();
  for (const auto& [section, choices] : made.sections())
    for (const auto& [key, value] : choices) text += fmt::format("{} {} = {}\n", section, key, value);
  return text;
}

// The first line in which `other` and `own` differ.
std::string first_difference(const std::string& own, const std::string& other, const std::string& whose) {
  const auto lines = [](const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  };
  const std::vector<std::string> a = lines(own), b = lines(other);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string ours = i < a.size() ? a[i] : "nothing", theirs = i < b.size() ? b[i] : "nothing";
    if (ours != theirs) return fmt::format("{}, where {} has {}", theirs, whose, ours);
  }
  return "";
}

// "", or in what they differ.
std::string disagreement(Ranks& ranks, const std::string& own) {
  const std::vector<std::string> all = ranks.gather(own);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::string difference = first_difference(all[0], all[rank], ranks.name(0));
    if (!difference.empty())
      return fmt::format("the ranks must train alike: {} has {}", ranks.name(static_cast<int>(rank)),
                         difference);
  }
  return "";
}

// ", NCCL_SOCKET_IFNAME=eth0", in the order of their names. NCCL reads them by itself.
std::string nccl_variables() {
  std::vector<std::string> set;
  for (char** entry = environ; *entry; ++entry)
    if (std::string_view(*entry).starts_with("NCCL_")) set.emplace_back(*entry);
  std::ranges::sort(set);
  std::string text;
  for (const std::string& variable : set) text += ", " + variable;
  return text;
}

// "", or which ranks share layers and are apart: they wait for each other within layers.
std::string layers_apart(const Ranks& ranks, int layer_ranks) {
  for (const Host& host : ranks.hosts()) {
    for (const int rank : host.ranks) {
      const int first = rank - rank % layer_ranks;
      for (int other = first; other < first + layer_ranks; ++other)
        if (std::ranges::find(host.ranks, other) == host.ranks.end())
          return fmt::format(
              "{} ranks share layers (parallel.tensor), and must be on one host: {}, and {}; start a "
              "multiple of {} ranks on each host, with consecutive numbers",
              layer_ranks, ranks.name(rank), ranks.name(other), layer_ranks);
    }
  }
  return "";
}

}  // namespace

std::vector<int> cores_to_check(const std::vector<int>& cores, int count) {
  const std::optional<World> started = world_of_environment();
  return started && started->size == count
             ? cores_of_rank(cores, started->local_rank(), started->local_size())
             : cores;
}

std::unique_ptr<Ranks> ranks_of_run(int count, const std::vector<int>& cores, Starts starts, bool quiet) {
  const std::optional<World> started = world_of_environment();
  if (started && started->size != count)
    throw InputError(
        fmt::format("{} started {} ranks, and the spec is of {}: write parallel.data={}, or start "
                    "as many",
                    started->launcher, started->size, count, started->size));
  const int here = started ? started->local_size() : count;
  use_cores(cores_of_rank(cores, started ? started->local_rank() : 0, here));
  if (count == 1) return nullptr;
  if (!started && starts == Starts::launcher)
    throw InputError(
        fmt::format("this program is of {0} ranks, and nobody started them: torchrun --nproc-per-node {0} "
                    "--no-python PROGRAM, or mpirun -np {0} PROGRAM",
                    count));
  if (const int cores = usable_cores(); here > cores && !quiet && (!started || started->local_rank() == 0))
    print_error(fmt::format("note: {} ranks take turns on {} cores\n", here, cores));
  if (started) return std::make_unique<Ranks>(*started, std::vector<std::string>());
  return std::make_unique<Ranks>(own_world(count), own_command());
}

RecordedChoices choices_of_rank_0(Ranks& ranks) {
  ranks.assemble();
  return RecordedChoices::from_json(ranks.share(""), "rank 0's choices");
}

void join_ranks(Ranks& ranks, const TrainSettings& settings, LaidOutProgram& program) {
  if (ranks.leads()) {
    ranks.assemble();
    ranks.share(program.choices().to_json());
  }
  std::string problem = disagreement(ranks, agreement_of(settings, program));
  if (problem.empty()) problem = layers_apart(ranks, static_cast<int>(program.layout().tensor_ranks));
  if (!problem.empty()) ranks.refuse_together(problem);
  program.join(ranks);
}

void print_hosts(Ranks& ranks, const LaidOutProgram& program, bool quiet) {
  if (ranks.hosts().empty()) return;
  const std::vector<std::string> all = ranks.gather(program.device() + nccl_variables());
  if (!ranks.leads() || quiet) return;
  std::string text;
  for (const Host& host : ranks.hosts()) {
    std::vector<std::string> devices;
    for (const int rank : host.ranks) devices.push_back(all[static_cast<size_t>(rank)]);
    if (std::ranges::adjacent_find(devices, std::not_equal_to()) == devices.end()) devices.resize(1);
    text += fmt::format("host {}: {} {}; {}\n", host.text(), host.ranks.size() == 1 ? "rank" : "ranks",
                        fmt::join(host.ranks, ", "), fmt::join(devices, "; "));
  }
  print_text(stdout, text);
}

int end_together(Ranks* ranks, const std::function<int(Ranks*)>& train) {
  if (!ranks) return train(nullptr);
  try {
    const int code = train(ranks);
    try {
      ranks->finish();
    } catch (const RunError&) {
      if (code != kExitStopped || !ranks->leads()) throw;  // else all is saved, whoever is lost now
    }
    return code;
  } catch (const std::exception& error) {
    // The end of another rank may look like a fault of this one's GPU. Or all have found the same.
    const std::string cause = ranks->failure(), own = error.what();
    const auto contains = [](const std::string& text, const std::string& part) {
      return text.find(part) != std::string::npos;
    };
    if (!cause.empty() && !contains(own, cause) && !contains(cause, own)) ranks->throw_failure();
    ranks->fail(error);
    throw;
  } catch (...) {  // of which this rank has told its user already
    ranks->fail(InputError("its spec or its data cannot be used"));
    throw;
  }
}

}  // namespace hydrac::runtime
