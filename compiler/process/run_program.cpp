#include "process/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace hydrac {

namespace {

// A child's preparations before it starts: where its outputs go, and the signals that this program ignores
// (runtime/log/signal.h) end it as they end any program.
class Redirections {
 public:
  Redirections() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  ~Redirections() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Redirections(const Redirections&) = delete;
  Redirections& operator=(const Redirections&) = delete;

  void to_nowhere(int output) {
    posix_spawn_file_actions_addopen(&actions_, output, "/dev/null", O_WRONLY, 0);
  }
  void to(int file, int output) { posix_spawn_file_actions_adddup2(&actions_, file, output); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::string read_to_end(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) != 0;) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  return text;
}

void wait_for(pid_t child, Ended& ended) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

std::string describe_end(const Ended& ended) {
  if (ended.signal != 0)
    return fmt::format("was killed by signal {} ({})", ended.signal, strsignal(ended.signal));
  return fmt::format("ended with exit code {}", ended.code);
}

Ended run_program(std::vector<std::string> words, Says says) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const bool listens = says == Says::to_caller || says == Says::all_to_caller;
  int pipe[2] = {-1, -1};
  if (listens && pipe2(pipe, O_CLOEXEC) != 0) throw runtime::RunError("cannot make a pipe");
  Redirections redirections;
  if (says == Says::only_errors) redirections.to_nowhere(STDOUT_FILENO);
  if (listens) redirections.to(pipe[1], STDOUT_FILENO);
  if (says == Says::all_to_caller) redirections.to(pipe[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], redirections.get(), redirections.attributes(),
                                 arguments.data(), environ);
  if (listens) close(pipe[1]);
  Ended ended;
  if (error == 0 && listens) ended.said = read_to_end(pipe[0]);
  if (listens) close(pipe[0]);
  if (error == EAGAIN || error == ENOMEM) throw runtime::RunError("cannot start " + words[0]);
  if (error != 0) return {127, std::strerror(error)};
  wait_for(child, ended);
  return ended;
}

}  // namespace hydrac
