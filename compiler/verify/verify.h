// The comparison with the oracle: loss, every parameter's gradient, and the parameters after some optimizer
// steps, each against float64. Frozen parameters must not have changed, bit for bit.
//
// fp32 and tf32 have fixed tolerances. A 16-bit program is compared with the usual alternative: the oracle
// also trains the same model under PyTorch's autocast, and on every tensor the program's distance from
// float64 may be at most 1.25 times autocast's. (Activations are 16 bits wide where autocast keeps float32,
// so this is no foregone conclusion; with `residual: compute` autocast's residual stream is 16 bits wide
// too.) The tolerances allow for chance:
// - A small tensor's error may happen to be small, like that of a tensor with few wrong elements, and a loss
//   or norm is one number a step: see allowed_beside() and effective_elements().
// - AdamW and Lion divide by the gradient's size, so an element whose gradient is all rounding error makes a
//   whole step in an arbitrary direction. Parameters are compared without the elements whose first gradient
//   is not resolved, and a few of the others may have gone the other way in all steps.
// - Lion takes a sign in every step. In fp32 and tf32 a yardstick of its own measures the effect, see
//   Yardstick. In 16 bits autocast measures it too, and an element whose momentum has become smaller than its
//   error may go the other way: of normally distributed numbers with a relative error of e, e / pi change
//   their sign.
//
// If routers choose tokens (model.mod), the oracle computes the tokens that the program chose, since two
// scores may be closer than rounding; "choices" is the share of all tokens that the oracle would have chosen
// otherwise.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "verify/training.h"
#include "verify/yardstick.h"

namespace hydrac::verify {

// ||ours - reference|| / ||reference|| of one tensor, all its slots together.
struct Difference {
  std::string what;  // "loss", "aux_loss", "grad_norm", "choices", "gradient", "parameter", "frozen"
  std::string name;
  double relative = 0;
  double tolerance = 0;
  std::optional<double> yardstick;  // its relative difference, where there is one
  int64_t left_out = 0;             // parameters: elements whose gradient is not resolved
  bool passed() const { return relative <= tolerance; }  // false for NaN
};

// `reference`: the oracle's result.safetensors for the same batches, with the yardstick's results if
// yardstick_of(spec) is one. Only the spec's precision and optimizer are used. InputError with a tensor's
// name if it is missing or has another number of elements.
std::vector<Difference> compare(const Training& ours, const runtime::SafetensorsReader& reference,
                                const spec::Spec& spec);

}  // namespace hydrac::verify
