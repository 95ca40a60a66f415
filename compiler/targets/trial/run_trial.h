// A kernel beside the interpreter.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "targets/trial/trials.h"

namespace hydrac::targets {

// Runs the kernel of a trial on tensors in this process's memory.
using TrialLaunch = std::function<void(const std::vector<void*>& arguments, int layer, int64_t rows)>;

// How it differs from its body, "" where it does not: on several sets of numbers, of which one may lie where
// a rounding decides. nullopt: it was not run, since with all that is invented it would read other memory.
std::optional<std::string> run_trial(const ir::Graph& graph, const Trial& trial, const TrialLaunch& launch);

}  // namespace hydrac::targets
