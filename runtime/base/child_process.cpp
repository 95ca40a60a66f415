#include "runtime/base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

namespace hydrac::runtime {

namespace {

// This process's environment with `variables` in place of those of the same names.
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

void close_file(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

// posix_spawn's preparations.
class Preparations {
 public:
  explicit Preparations(bool own_group) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, static_cast<short>(POSIX_SPAWN_SETSIGDEF | (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
  }
  ~Preparations() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Preparations(const Preparations&) = delete;
  Preparations& operator=(const Preparations&) = delete;

  void connect(int standard, int file, int pipe) {
    if (file == kNowhere)
      posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
    else if (file != standard)
      posix_spawn_file_actions_adddup2(&actions, file == kPipe ? pipe : file, standard);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

std::string describe(const ChildEnd& end) {
  if (end.signal != 0) return fmt::format("was killed by signal {} ({})", end.signal, strsignal(end.signal));
  return fmt::format("ended with exit code {}", end.code);
}

ChildProcess::ChildProcess(std::vector<std::string> words, const ChildSetup& setup)
    : own_group_(setup.own_group) {
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  if ((setup.input == kPipe && ::pipe2(in, O_CLOEXEC) != 0) ||
      (setup.output == kPipe && ::pipe2(out, O_CLOEXEC) != 0))
    error_ = errno;
  input_ = in[1], output_ = out[0];
  Preparations preparations(own_group_);
  preparations.connect(STDIN_FILENO, setup.input, in[0]);
  preparations.connect(STDOUT_FILENO, setup.output, out[1]);
  preparations.connect(STDERR_FILENO, setup.errors, out[1]);
  std::vector<std::string> environment = environment_with(setup.environment);
  const std::string executable = setup.executable.value_or(words[0]);
  if (error_ == 0)
    error_ = ::posix_spawnp(&process_, executable.c_str(), &preparations.actions, &preparations.attributes,
                            pointers(words).data(), pointers(environment).data());
  if (error_ != 0) process_ = -1;
  close_file(in[0]);
  close_file(out[1]);
}

ChildProcess::~ChildProcess() {
  kill();
  if (process_ > 0) wait();
  close_file(input_);
  close_file(output_);
}

void ChildProcess::close_input() {
  close_file(input_);
}

void ChildProcess::kill() {
  if (process_ > 0 && !end_) ::kill(own_group_ ? -process_ : process_, SIGKILL);
}

std::optional<ChildEnd> ChildProcess::wait(int options) {
  int status = 0;
  pid_t process = 0;
  while (!end_ && (process = ::waitpid(process_, &status, options)) < 0 && errno == EINTR) {
  }
  if (process != 0)
    end_ =
        ChildEnd{WIFEXITED(status) ? WEXITSTATUS(status) : 128, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  return end_;
}

std::optional<ChildEnd> ChildProcess::ended() {
  return wait(WNOHANG);
}

ChildEnd ChildProcess::wait() {
  return *wait(0);
}

ssize_t write_to_pipe(int file, const char* data, size_t bytes) {
  sigset_t broken_pipe, before;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const ssize_t written = write(file, data, bytes);
  const int error = errno;
  if (written < 0 && error == EPIPE) {
    const timespec at_once = {};
    sigtimedwait(&broken_pipe, nullptr, &at_once);  // takes it away
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

std::string read_to_end(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(file, buffer, sizeof buffer)) != 0;) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  return text;
}

std::string python_program() {
  const char* named = std::getenv("HYDRAC_PYTHON");
  return named && *named ? named : "python3";
}

}  // namespace hydrac::runtime
