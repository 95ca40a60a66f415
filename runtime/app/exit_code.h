// Exit codes of a run, and the exceptions that lead to them.
#pragma once
#include <functional>
#include <string_view>

#include "runtime/exit_codes.h"

namespace hydrac::runtime {

// For --help, behind what 0 and 1 mean.
inline constexpr std::string_view kExitCodesFrom2 =
    "2 bad input, 3 the run failed, 4 stopped by a signal\n"
    "before the end: saved, continue with --resume; 130 stopped at once by a second signal";

// Calls `work`. An exception is printed to stderr, after the program's name, and becomes the exit code:
// InputError kExitBadInput, all others kExitRunFailed. Standard output that could not be written gives
// kExitRunFailed too, or kExitNobodyReads if its reader is gone. From here on, writing to a closed pipe, or
// beyond the limit on file sizes, is an error of that write instead of a signal. While `work` runs, a mapped
// file that another program shortens ends the process with kExitRunFailed and the file's name (see
// runtime/data/mapping_faults.h).
int exit_code_of(std::string_view program, const std::function<int()>& work);

}  // namespace hydrac::runtime
