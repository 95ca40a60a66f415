// Behaviour of OpenMP's threads between kernels.
#pragma once

namespace hydrac::runtime {

// OpenMP's threads spin between kernels by default. Where another process wants the processor too, the
// spinning takes it from the very thread that is waited for: measured, steps became 3 to 8 times slower on a
// busy machine, and sleeping costs an idle one 2%. libgomp reads the policy while it is loaded, before main,
// so the program starts itself again: to be called first in main, with its argv. Where the user has set a
// policy, it stays.
void let_idle_threads_sleep(char** argv);

}  // namespace hydrac::runtime
