#include "runtime/parallel/started_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

// This process's environment with `variables` ("NAME=value") in place of those of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('=') + 1);
    const bool replaced =
        std::ranges::any_of(variables, [&](const std::string& v) { return v.starts_with(name); });
    if (!replaced) all.emplace_back(*entry);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

std::string end_text(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

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
    std::vector<std::string> environment = environment_with(environment_of(world, rank, errors));
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, child.said, STDERR_FILENO);
    pid_t process = 0;
    const int error = ::posix_spawn(&process, "/proc/self/exe", &files, nullptr, pointers(command_).data(),
                                    pointers(environment).data());
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) throw RunError(fmt::format("cannot start rank {}: {}", rank, std::strerror(error)));
    child.process = process;
  }
  ::close(errors);
}

std::string StartedRanks::why(int rank, double seconds) {
  if (rank < 1 || rank > static_cast<int>(children_.size())) return "";
  Child& child = children_[static_cast<size_t>(rank) - 1];
  const double began = monotonic_seconds();
  while (child.end.empty() && child.process != 0) {
    int status = 0;
    if (::waitpid(child.process, &status, WNOHANG) == child.process) {
      child.end = end_text(status);
      if (WIFEXITED(status)) child.code = WEXITSTATUS(status);
    } else if (monotonic_seconds() - began >= seconds) {
      break;
    } else {
      ::usleep(5'000);
    }
  }
  return child.end;
}

void StartedRanks::kill(int rank) {
  if (why(rank, 0).empty() && rank >= 1 && rank <= static_cast<int>(children_.size()))
    ::kill(children_[static_cast<size_t>(rank) - 1].process, SIGKILL);
}

bool StartedRanks::refused(int rank) const {
  return rank >= 1 && rank <= static_cast<int>(children_.size()) &&
         children_[static_cast<size_t>(rank) - 1].code == kExitBadInput;
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
    const double left = kPatience - (monotonic_seconds() - began);
    if (why(static_cast<int>(i) + 1, std::max(0.0, left)).empty() && children_[i].process != 0) {
      ::kill(children_[i].process, SIGKILL);
      why(static_cast<int>(i) + 1, kPatience);
    }
    if (children_[i].said >= 0) ::close(children_[i].said);
  }
}

}  // namespace hydrac::runtime
