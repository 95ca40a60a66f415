// The least time on a target: that its peaks take for the flop and the bytes of a call.
#pragma once
#include "driver/compile.h"
#include "targets/target.h"

namespace hydrac::driver {

// 0 = not known.
struct Peaks {
  double flops = 0;             // of matrix units, a second
  double flops_of_8_bits = 0;   // of matmuls of 8 bits
  double bytes_per_second = 0;  // of device memory
};
Peaks peaks_of(const targets::Target& target, spec::Precision precision);

// Seconds: matmuls (and attention) take the longer of compute and memory time, everything else moves its
// bytes. 0 if the target's peaks are not known.
double floor_seconds(const Peaks& peaks, const program::Call& call);

// Work of one optimizer step, without what ranks send to each other.
struct StepWork {
  double flop = 0;
  double bytes = 0;
  double matmul_flop = 0;  // of the calls that multiply matrices
  double other_bytes = 0;  // of the calls that do not
  double floor_seconds = 0;
  int64_t calls = 0;
  double copied_bytes = 0;  // to the host's memory and back; not among `bytes`
};
StepWork step_work(const Compiled& compiled);
// With other rates than the target's peaks.
StepWork step_work(const Compiled& compiled, const Peaks& peaks);

// Bytes that one of several ranks sends to others in a step; 0 for one process.
int64_t bytes_sent_per_step(const Compiled& compiled);
// Seconds that this takes on GPUs of one machine without overlap; 0 if the target's links are not known.
double sending_seconds(const Compiled& compiled);
// The same of any bytes, in calls that are large.
double seconds_over_links(const targets::Target& target, double bytes);

}  // namespace hydrac::driver
