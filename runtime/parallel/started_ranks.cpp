#include "runtime/parallel/started_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>

#include "runtime/error.h"
#include "runtime/exit_codes.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/cores.h"

namespace hydrac::runtime {

namespace {

constexpr double kPatience = 5;  // seconds for ranks that were told to end

}  // namespace

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

void StartedRanks::start(const World& world) {
  if (command_.empty()) return;
  const OnAllCores all_cores;                              // each rank takes its own part of them
  const int errors = ::fcntl(STDERR_FILENO, F_DUPFD, 10);  // not closed by exec
  for (int rank = 1; rank < world.size; ++rank) {
    Child& child = children_.emplace_back();
    child.said = ::memfd_create("hydrac-rank-errors", MFD_CLOEXEC);
    child.process = std::make_unique<ChildProcess>(
        command_, ChildSetup{.output = kNowhere,
                             .errors = child.said,
                             .environment = environment_of(world, rank, errors),
                             .executable = "/proc/self/exe"});
    if (const int error = child.process->error(); error != 0) {
      child.process = nullptr;
      throw RunError(fmt::format("cannot start rank {}: {}", rank, std::strerror(error)));
    }
  }
  ::close(errors);
}

std::string StartedRanks::why(int rank, double seconds) {
  if (rank < 1 || rank > static_cast<int>(children_.size())) return "";
  Child& child = children_[static_cast<size_t>(rank) - 1];
  const double began = monotonic_seconds();
  while (child.process && !child.process->ended() && monotonic_seconds() - began < seconds) ::usleep(5'000);
  const std::optional<ChildEnd> end = child.process ? child.process->ended() : std::nullopt;
  return end ? describe(*end) : "";
}

void StartedRanks::kill(int rank) {
  if (rank < 1 || rank > static_cast<int>(children_.size())) return;
  if (ChildProcess* process = children_[static_cast<size_t>(rank) - 1].process.get()) process->kill();
}

bool StartedRanks::refused(int rank) {
  return !why(rank, 0).empty() &&
         children_[static_cast<size_t>(rank) - 1].process->ended()->code == kExitBadInput;
}

std::string StartedRanks::what_it_said(int rank) const {
  if (rank < 1 || rank > static_cast<int>(children_.size())) return "";
  char text[2000];
  const ssize_t bytes = ::pread(children_[static_cast<size_t>(rank) - 1].said, text, sizeof text, 0);
  if (bytes <= 0) return "";
  std::string said(text, static_cast<size_t>(bytes));
  while (said.ends_with('\n')) said.pop_back();
  return "; it said:\n" + said;
}

StartedRanks::~StartedRanks() {
  const double began = monotonic_seconds();
  for (size_t i = 0; i < children_.size(); ++i) {
    why(static_cast<int>(i) + 1, std::max(0.0, kPatience - (monotonic_seconds() - began)));
    children_[i].process = nullptr;  // killed if it still runs
    if (children_[i].said >= 0) ::close(children_[i].said);
  }
}

}  // namespace hydrac::runtime
