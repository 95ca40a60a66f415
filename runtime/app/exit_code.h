// How a run ends, for whoever started it.
#pragma once
#include <functional>
#include <string_view>

namespace hydrac::runtime {

inline constexpr int kExitFine = 0, kExitBadInput = 2, kExitRunFailed = 3;

// Calls `work`, and makes sure that what it printed was written. What it throws is printed to stderr, after
// the program's name, and becomes the exit code: InputError kExitBadInput, all else kExitRunFailed.
int exit_code_of(std::string_view program, const std::function<int()>& work);

}  // namespace hydrac::runtime
