#pragma once

namespace hydrac::runtime {

// Seconds since some fixed moment; never goes backwards.
double monotonic_seconds();

}  // namespace hydrac::runtime
