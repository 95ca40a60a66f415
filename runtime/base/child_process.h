// Another program that runs beside this one.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrac::runtime {

struct ChildEnd {
  int code = 0;    // 128 if a signal ended it
  int signal = 0;  // that ended it
};

// "was killed by signal 9 (Killed)", "ended with exit code 1".
std::string describe(const ChildEnd& end);

// One of a child's standard files: a file of this process, or one of these.
inline constexpr int kNowhere = -1, kPipe = -2;

struct ChildSetup {
  int input = kNowhere;
  int output = STDOUT_FILENO;
  int errors = STDERR_FILENO;             // kPipe: that of the output
  bool own_group = false;                 // a terminal's signals do not reach it
  std::vector<std::string> environment;   // "NAME=value", in place of this process's of the same names
  std::optional<std::string> executable;  // if not the first word
};

// The signals that this program ignores (runtime/log/signal.h) end a child as they end any program.
class ChildProcess {
 public:
  // Starts `words`, the first of them a path or a name that $PATH finds, without a shell.
  ChildProcess(std::vector<std::string> words, const ChildSetup& setup);
  // Kills it (its whole group if it has its own) unless its end was seen.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int error() const { return error_; }  // errno if it was not started
  // This process's ends of its pipes; -1 if there is none, or it is closed.
  int input() const { return input_; }
  int output() const { return output_; }
  void close_input();
  int take_output() { return std::exchange(output_, -1); }  // the caller's to close

  void kill();
  std::optional<ChildEnd> ended();  // absent while it runs
  ChildEnd wait();

 private:
  std::optional<ChildEnd> wait(int options);

  pid_t process_ = -1;
  bool own_group_;
  int error_ = 0, input_ = -1, output_ = -1;
  std::optional<ChildEnd> end_;
};

// write(); a pipe that nobody reads any more is an error and never a signal, whatever this program does with
// those.
ssize_t write_to_pipe(int file, const char* data, size_t bytes);

// read() until the end of the file.
std::string read_to_end(int file);

// $HYDRAC_PYTHON, else python3.
std::string python_program();

}  // namespace hydrac::runtime
