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

// A line of JSON a prompt, bytes that are no UTF-8 replaced:
//   {"prompt": "...", "replies": ["...", "..."]}
std::string json_lines(std::span<const PromptReplies> prompts);

// Runs the command, without a shell, with `lines` as its standard input; it prints a number a line, one for
// each of `replies` replies in their order. Standard error goes where this process's does. RewardError that
// names the command: it cannot be started, ends with another exit code than 0, takes longer than its timeout
// (it is killed then, with all processes of its group), or prints anything but so many finite numbers. Called
// where ignore_write_signals() was.
std::vector<double> rewards_of(const RewardCommand& command, std::string lines, size_t replies);

}  // namespace hydrac::runtime
