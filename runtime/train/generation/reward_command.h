// Rewards of replies from a program of the user's.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace hydrac::runtime {

// The command failed. The program that trains is as it was before the step.
class RewardError : public RunError {
 public:
  using RunError::RunError;
};

struct RewardCommand {
  std::vector<std::string> words;  // the first is a path, or a name that $PATH finds
  double timeout_seconds = 0;      // above 0
};

struct PromptReplies {
  std::string prompt;
  std::vector<std::string> replies;
};

// A line of JSON for each prompt, with invalid UTF-8 replaced:
//   {"prompt": "...", "replies": ["...", "..."]}
std::string json_lines(std::span<const PromptReplies> prompts);

// Runs the command, without a shell, with `lines` as its standard input. It prints a number a line, one for
// each of `replies` replies in order. Its standard error is this process's. RewardError with the command's
// name: it cannot be started, ends with an exit code other than 0, exceeds its timeout (it is killed then,
// with its process group), or does not print exactly so many finite numbers. ignore_write_signals() must have
// been called.
std::vector<double> rewards_of(const RewardCommand& command, std::string lines, size_t replies);

}  // namespace hydrac::runtime
