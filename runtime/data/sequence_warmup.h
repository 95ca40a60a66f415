// Sequence length warm-up: during the first steps each row of T tokens is cut into shorter sequences, which
// do not see each other, so that a step has the same tokens whatever their length is.
#pragma once
#include <cstdint>

namespace hydrac::runtime {

struct SequenceWarmup {
  int64_t sequence_len = 0;      // T
  int64_t start = 0;             // tokens of a sequence in the first step, 1 <= start < T
  int64_t steps = 0;             // optimizer steps with less than T; 0: rows are never cut
  int64_t samples_per_step = 0;  // rows of an optimizer step, over all ranks

  bool cuts_rows() const { return steps > 0; }

  // Tokens of a sequence in a step before which `done` others were: linear from `start` to T, rounded down to
  // a multiple of `start`; T from step `steps` on. A row that is no multiple of it ends with a shorter one.
  int64_t length_after(int64_t done) const {
    if (done >= steps) return sequence_len;
    const int64_t grown = start + (sequence_len - start) * done / steps;
    return grown / start * start;
  }
  // The same, of the row that is training sample `sample`; only where it cuts rows.
  int64_t length_of(int64_t sample) const { return length_after(sample / samples_per_step); }
};

}  // namespace hydrac::runtime
