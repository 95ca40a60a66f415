// The processor cores that this process may run on.
#pragma once

namespace hydrac::runtime {

int usable_cores();

}  // namespace hydrac::runtime
