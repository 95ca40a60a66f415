// Stopping a run from outside: the first SIGINT or SIGTERM asks it to finish the step, save and exit; the
// second one ends the process at once with exit code 130.
#pragma once

namespace hydrac::runtime {

// Installs both handlers; again at every call, which the main thread makes: that is where signals arrive. The
// first one also says on stderr what is going to happen.
void install_stop_handlers();

// Whether a signal has come since the handlers were installed. Any thread.
bool stop_requested();

}  // namespace hydrac::runtime
