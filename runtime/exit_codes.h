// With which a program ends, for whoever started it.
#pragma once

namespace hydrac::runtime {

inline constexpr int kExitFine = 0;
inline constexpr int kExitBadInput = 2;   // InputError
inline constexpr int kExitRunFailed = 3;  // all else that is thrown
inline constexpr int kExitStopped = 4;    // a run that was asked to stop, before its last step: it is saved
inline constexpr int kExitNobodyReads = 128 + 13;  // the reader of the result is gone, as SIGPIPE says it

}  // namespace hydrac::runtime
