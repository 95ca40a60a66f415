// The other ranks of a run, started by rank 0: this program again, with torchrun's variables.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/parallel/world.h"

namespace hydrac::runtime {

// The words that this process was started with.
std::vector<std::string> own_command();

class StartedRanks {
 public:
  // Starts nothing yet. `command`: this program's arguments, its name first; empty: a launcher starts them.
  explicit StartedRanks(std::vector<std::string> command) : command_(std::move(command)) {}
  // Waits for those that still run; kills what is left after some seconds.
  ~StartedRanks();
  StartedRanks(const StartedRanks&) = delete;
  StartedRanks& operator=(const StartedRanks&) = delete;

  // Their errors before they have a log go to memory: see why(). RunError.
  void start(const World& world);
  // "was killed by signal 9 (Killed)"; "" while it runs, and for a rank that was not started here. Waits up
  // to `seconds` for its end.
  std::string why(int rank, double seconds);
  // Kills a rank that does not end by itself; nothing if a launcher started it.
  void kill(int rank);
  // True if why() is that its input cannot be used.
  bool refused(int rank);
  // "; it said: ..." of one that had no log yet.
  std::string what_it_said(int rank) const;

 private:
  struct Child {
    std::unique_ptr<ChildProcess> process;
    int said = -1;  // a file of memory
  };
  std::vector<std::string> command_;
  std::vector<Child> children_;  // rank 1 first
};

}  // namespace hydrac::runtime
