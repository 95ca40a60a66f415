// Predicts the time of an optimizer step before anything runs. Planning chooses keys by it (driver/fit.h),
// and `hydrac tune` starts from it.
#pragma once
#include "driver/floor.h"

namespace hydrac::driver {

// Shares of a target's peaks that programs reach.
struct Rates {
  Peaks reached;                     // typical ones where the target's peaks are not known
  double host_bytes_per_second = 0;  // over the bus, one way
  double seconds_a_call = 0;         // beside its work
  bool are_known = false;            // otherwise only ratios of times say something
};
Rates rates_of(const targets::Target& target, spec::Precision precision);

// Seconds of one optimizer step. A call takes as long as its operations or its bytes, whichever is longer.
// Moments on the host cross the bus once each way, both ways at once. Copies of activations overlap with the
// other calls: the longer of both counts. Traffic between ranks is left out.
double predicted_seconds(const Compiled& compiled);

// Bytes that the layers' forward pass leaves for their backward pass, over all layers.
int64_t saved_bytes(const Compiled& compiled);

// Bytes that the plan has in the host's memory, of values of a role.
int64_t bytes_on_host(const Compiled& compiled, ir::Role role);

// Seconds that the update takes for so many bytes on the host.
double seconds_over_bus(const Compiled& compiled, int64_t bytes);

// Attention's part of it, forward and backward: a share, 0 to 1.
double attention_share(const Compiled& compiled);

}  // namespace hydrac::driver
