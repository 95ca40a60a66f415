// The peer: the job's graph trained in float32 as a good PyTorch program would, and timed.
#pragma once
#include <string>

#include "oracle/job/job.h"

namespace hydrac::oracle {

struct BenchResult {
  double ms_per_step_median = 0;
  double ms_min = 0;
  double tokens_per_second = 0;  // at the median; positions of the batch in all micro-batches
  double peak_rss_mib = 0;       // of the whole process
  double loss_first = 0;         // before the first update
  double loss_last = 0;
  std::string torch;  // LibTorch's version
};

// Random parameters and fresh random data every step, so it needs nothing but the job. Three steps of
// warm-up, then `job.bench_steps` are timed: gradients cleared, forward, backward, clipping, update. Making
// the data is not timed. Throws JobError.
BenchResult bench(const Job& job);

}  // namespace hydrac::oracle
