// `train.micro_batch_size: auto`, which is answered by planning.
#pragma once
#include "driver/compile.h"

namespace hydrac::driver {

// Sets micro_batch_size to the largest divisor of the global batch whose program fits the memory limit
// (driver/fit_memory.h), and gradient_accumulation_steps with it. On cpu only sizes of at most 4096 tokens
// are tried, because larger ones leave the caches. Where none fits: one sequence, for memory_problem() to
// report. The result is the same on every machine of the spec's target. InputError where the limit is not
// known.
void choose_micro_batch(spec::Spec& spec, const CompileOptions& options);

}  // namespace hydrac::driver
