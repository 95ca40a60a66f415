// Ranks of a test, each in a process of its own.
#pragma once
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/parallel/ranks.h"
#include "tests/unit/support/child.h"

namespace hydrac::test {

// Runs `body` on each rank, and gives what each one told, by rank. A RunError is told too, behind "! ".
inline std::vector<std::string> on_ranks(int size,
                                         const std::function<void(runtime::Ranks&, int pipe)>& body) {
  static int run = 0;
  const std::string meeting = "on_ranks " + std::to_string(::getpid()) + " " + std::to_string(++run);
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(std::make_unique<Child>([&, rank](int pipe) {
      runtime::Ranks ranks({rank, size, meeting, "torchrun"}, {});
      try {
        ranks.assemble();
        body(ranks, pipe);
        ranks.finish();
      } catch (const runtime::RunError& error) {
        ranks.fail(error.what());
        tell(pipe, std::string("! ") + error.what());
      }
    }));
  }
  std::vector<std::string> told;
  for (const auto& child : children) told.push_back(child->read());
  for (const auto& child : children) child->wait();
  return told;
}

}  // namespace hydrac::test
