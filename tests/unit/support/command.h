// Commands of the shell that tests run.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/unit/support/source_dir.h"

namespace hydrac::test {

struct CommandOutcome {
  int code = -1;       // 1000 where a signal ended it
  std::string output;  // what it wrote to its standard output
};

inline CommandOutcome run_command(const std::string& command) {
  CommandOutcome outcome;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "no shell runs " << command;
    return outcome;
  }
  std::array<char, 4096> chunk;
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    outcome.output.append(chunk.data(), count);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  return outcome;
}

// A Python with Hugging Face's packages, where there is one: it may be named, or lie where ./dev keeps such
// things.
inline std::string python_with_packages() {
  if (const char* named = std::getenv("HYDRAC_PYTHON")) return named;
  const std::string kept = source_dir() + "/.cache/transformers/bin/python3";
  return std::filesystem::exists(kept) ? kept : "python3";
}

}  // namespace hydrac::test
