// The keys that planning may choose (optimizations.fit, train.micro_batch_size: auto), and which of them a
// spec leaves open.
#pragma once
#include "spec/spec.h"

namespace hydrac::spec {

struct OpenKeys {
  bool micro_batch_size = false;  // and gradient_accumulation_steps with it
  bool recompute = false;
  bool recompute_layers = false;
  bool loss = false;
  bool offload = false;          // offload.optimizer_state
  bool optimizer_state = false;  // which may become int8
  bool any() const {
    return micro_batch_size || recompute || recompute_layers || loss || offload || optimizer_state;
  }
};

// With fit: none the micro-batch alone can be open: `recompute: auto` is asked where a program is compiled.
OpenKeys open_keys(const Spec& spec);

// Gives the open keys of `spec` the values that `chosen` has, the same spec after planning, so that nothing
// is left to choose.
void take_chosen_keys(Spec& spec, const SpecKeys& chosen);

}  // namespace hydrac::spec
