// The carrier of numbers between GPUs of ranks that share micro-batches, and the memory that it takes.
#pragma once
#include <cstdint>

#include "driver/compile.h"

namespace hydrac::driver {

// True if it may be copies between the GPUs (parallel.exchange), as far as the program alone decides.
bool may_exchange_by_copies(const Compiled& c);

// Bytes of the arena that copies between ranks take in addition to the tensors; 0 without copies. `c` must
// have its program, because the largest sum among its calls decides.
int64_t exchange_bytes(const Compiled& c);

// Logs which one is used, and why.
void explain_exchange(const Compiled& c, passes::Log& log);

}  // namespace hydrac::driver
