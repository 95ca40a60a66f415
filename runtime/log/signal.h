// Stopping a run from outside: the first SIGINT, SIGTERM or SIGHUP (a closed terminal) asks it to finish the
// step, save and exit. A second SIGINT or SIGTERM ends the process at once with exit code 130.
#pragma once

namespace hydrac::runtime {

inline constexpr int kExitInterrupted = 130;

// Signals this soon after the first one count as the same one: `timeout` and job schedulers signal both the
// process and its group.
inline constexpr double kSameSignalSeconds = 0.3;

// Installs the handlers, again at every call. The main thread must call it, because signals arrive there. The
// first signal prints on stderr what will happen. A SIGHUP that is ignored, as under nohup, stays ignored.
// Otherwise SIGHUP never counts as the second signal, because a closing terminal sends several.
void install_stop_handlers();

// True if a signal has come since the handlers were installed. Any thread.
bool stop_requested();

// Makes writing to a closed pipe, or beyond the limit on file sizes, an error of that write (EPIPE, EFBIG)
// instead of the end of the process.
void ignore_write_signals();

}  // namespace hydrac::runtime
