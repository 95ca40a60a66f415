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

// How the kernel differs from its body, "" if it does not. It must differ on several sets of numbers, because
// on one set a value may lie where a rounding decides. nullopt: not run, because invented inputs would make
// it read other memory.
std::optional<std::string> run_trial(const ir::Graph& graph, const Trial& trial, const TrialLaunch& launch);

}  // namespace hydrac::targets
