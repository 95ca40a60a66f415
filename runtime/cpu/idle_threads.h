// Behaviour of OpenMP's threads between kernels.
#pragma once

namespace hydrac::runtime {

// Makes idle OpenMP threads sleep. By default they spin between kernels. If another process wants the
// processor too, the spinning threads take it from the very thread that they wait for: on a busy machine
// steps became 3 to 8 times slower, and sleeping costs an idle machine 2%. libgomp reads the policy when it
// is loaded, before main, so the program restarts itself: call this first in main, with its argv. A policy
// that the user has set stays.
void let_idle_threads_sleep(char** argv);

}  // namespace hydrac::runtime
