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

using OnRank = std::function<void(runtime::Ranks&, int pipe)>;

// Runs `body` on each rank of `worlds`, and gives what each one told, by rank. A RunError is told too, behind
// "! ", and an InputError behind "? ". `codes`: become those of the processes.
inline std::vector<std::string> in_worlds(const std::vector<runtime::World>& worlds, const OnRank& body,
                                          std::vector<int>* codes = nullptr) {
  std::vector<std::unique_ptr<Child>> children;
  for (const runtime::World& world : worlds) {
    children.push_back(std::make_unique<Child>([&](int pipe) {
      runtime::Ranks ranks(world, {});
      try {
        ranks.assemble();
        body(ranks, pipe);
        ranks.finish();
      } catch (const runtime::RunError& error) {
        ranks.fail(error);
        tell(pipe, std::string("! ") + error.what());
      } catch (const runtime::InputError& error) {
        ranks.fail(error);
        tell(pipe, std::string("? ") + error.what());
      }
    }));
  }
  std::vector<std::string> told;
  for (const auto& child : children) told.push_back(child->read());
  for (const auto& child : children) {
    const int code = child->wait();
    if (codes) codes->push_back(code);
  }
  return told;
}

// On one host.
inline std::vector<std::string> on_ranks(int size, const OnRank& body, std::vector<int>* codes = nullptr) {
  static int run = 0;
  runtime::World world;
  world.size = size;
  world.meeting = "on_ranks " + std::to_string(::getpid()) + " " + std::to_string(++run);
  world.launcher = "torchrun";
  std::vector<runtime::World> worlds;
  for (world.rank = 0; world.rank < size; ++world.rank) worlds.push_back(world);
  return in_worlds(worlds, body, codes);
}

}  // namespace hydrac::test
