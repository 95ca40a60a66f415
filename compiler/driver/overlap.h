// Decides if sums over ranks run beside the backward pass.
#pragma once
#include "driver/compile.h"

namespace hydrac::driver {

// Sums over ranks that run beside the backward pass take multiprocessors from it, and many small ones take
// longer than one of all gradients. On two H100 gpt2-124m with 8 x 1024 tokens, whose sums alone take a tenth
// of a step, loses 1.4 ms with sums beside and 1.7 with one call; llama-1b with 2 x 4096 10.5 and 15. With 64
// x 1024 tokens, where they take a fiftieth, gpt2-124m loses 4.9 and 3.9. Where rates are not known they run
// beside. Of a graph at any stage between autodiff and calls.
bool overlaps_sums(const Compiled& c, passes::Log& log);

}  // namespace hydrac::driver
