// Running a piece of a test in a process of its own: to kill it, to take rights or space from it, to look at
// its end.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace hydrac::test {

// A forked process that runs `body` with the writing end of a pipe and then leaves with 0; with 99 on an
// exception.
class Child {
 public:
  explicit Child(const std::function<void(int pipe)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ > 0) {
      ::close(ends[1]);
      read_end_ = ends[0];
      return;
    }
    ::close(ends[0]);
    try {
      body(ends[1]);
      ::_exit(0);
    } catch (...) {
      ::_exit(99);
    }
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(read_end_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const { ASSERT_EQ(::kill(pid_, signal), 0); }

  // Without waiting for it.
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }

  // The exit code, or 1000 + the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(std::exchange(pid_, -1), &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  // What it has written to the pipe, up to its end or up to `size` bytes.
  std::string read(size_t size = SIZE_MAX) const {
    std::string text;
    char c;
    while (text.size() < size && ::read(read_end_, &c, 1) == 1) text += c;
    return text;
  }

 private:
  pid_t pid_ = -1;
  int read_end_ = -1;
};

// Writes all of `text` to a pipe.
inline void tell(int pipe, const std::string& text) {
  if (::write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(98);
}

}  // namespace hydrac::test
