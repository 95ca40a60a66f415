// Decides if sums over ranks run beside the backward pass.
#pragma once
#include "driver/compile.h"

namespace hydrac::driver {

// Sums over ranks that overlap with the backward pass take multiprocessors from it, and many small sums take
// longer than one of all gradients. On two H100 gpt2-124m with 8 x 1024 tokens, whose sums alone take a tenth
// of a step, loses 1.4 ms with overlap and 1.7 with one call; llama-1b with 2 x 4096 loses 10.5 and 15. With
// 64 x 1024 tokens, where sums take a fiftieth, gpt2-124m loses 4.9 and 3.9. If rates are not known, sums
// overlap. `c` may be at any stage between autodiff and calls.
bool overlaps_sums(const Compiled& c, passes::Log& log);

}  // namespace hydrac::driver
