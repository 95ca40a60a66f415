#include "runtime/parallel/cores.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// Cores of the calling thread; ascending.
std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// The cores of the process before anything here changed them.
const std::vector<int>& first_cores() {
  static const std::vector<int> cores = allowed_cores();
  return cores;
}

// 0: the calling thread.
bool run_on(pid_t thread, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}

// "0-3, 8"
std::string in_ranges(const std::vector<int>& cores) {
  std::string text;
  for (size_t first = 0, next = 0; first < cores.size(); first = next) {
    next = first + 1;
    while (next < cores.size() && cores[next] == cores[next - 1] + 1) ++next;
    if (first > 0) text += ", ";
    text += fmt::format("{}", cores[first]);
    if (next > first + 1) text += fmt::format("-{}", cores[next - 1]);
  }
  return text;
}

}  // namespace

int usable_cores() {
  return std::max<int>(1, static_cast<int>(first_cores().size()));
}

std::string problem_with_cores(const std::vector<int>& cores) {
  const std::vector<int>& allowed = first_cores();
  const auto unusable = std::ranges::find_if(
      cores, [&](int core) { return std::ranges::find(allowed, core) == allowed.end(); });
  if (unusable == cores.end()) return "";
  const long there = ::sysconf(_SC_NPROCESSORS_CONF);
  if (*unusable >= there)
    return fmt::format("this machine has no core {}: its cores are 0 to {}", *unusable, there - 1);
  return fmt::format("this process may not use core {}: it may use {}", *unusable, in_ranges(allowed));
}

std::vector<int> cores_of_rank(const std::vector<int>& cores, int rank, int ranks) {
  const auto each = static_cast<std::ptrdiff_t>(cores.size()) / ranks;
  return {cores.begin() + rank * each, cores.begin() + (rank + 1) * each};
}

void use_cores(const std::vector<int>& cores) {
  if (cores.empty()) return;
  if (const std::string problem = problem_with_cores(cores); !problem.empty())
    throw InputError("train.cpu_affinity: " + problem);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string name = entry.path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    // A thread that ended meanwhile needs no core.
    if (!run_on(thread, cores) && errno != ESRCH)
      throw InputError(fmt::format("train.cpu_affinity: {}", std::strerror(errno)));
  }
}

OnAllCores::OnAllCores() {
  const std::vector<int>& first = first_cores();
  before_ = allowed_cores();
  if (before_ != first) run_on(0, first);
}

OnAllCores::~OnAllCores() {
  if (before_ != first_cores()) run_on(0, before_);
}

}  // namespace hydrac::runtime
