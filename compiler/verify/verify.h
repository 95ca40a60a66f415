// The comparison with the oracle: loss, every parameter's gradient, and the parameters after some optimizer
// steps, each against float64.
//
// fp32 and tf32 have fixed tolerances. A 16-bit program is measured by what people would use instead: the
// oracle trains the same model under PyTorch's autocast too, and on every tensor the program may be no
// further from float64 than 1.25 times what autocast is. (Its residual stream and activations are 16 bits
// wide where autocast keeps float32, so this is no foregone conclusion.) Luck is allowed for:
// - The error of a single number (a loss, a norm) may happen to be small. Autocast's is its largest over all
//   steps, and not less than a floor.
// - So may that of a small tensor: n rounding errors have a root mean square that scatters by 1 / sqrt(2 n),
//   and two of them are compared. The factor is 1.25 (1 + 3 / sqrt(n)).
// - AdamW and Lion divide by the gradient's size, so where it is all rounding error they make a whole step in
//   an arbitrary direction. Parameters are compared without the elements whose first gradient is not
//   resolved, and of the others a few may have gone the other way in all steps.
// - Lion takes a sign in every step: an element whose momentum has become smaller than its error may go the
//   other way. Of normally distributed numbers with a relative error of e, e / pi change their sign.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "verify/training.h"

namespace hydrac::verify {

// ||ours - reference|| / ||reference|| of one tensor, all its slots together.
struct Difference {
  std::string what;  // "loss", "grad_norm", "gradient", "parameter"
  std::string name;
  double relative = 0;
  double tolerance = 0;
  std::optional<double> autocast;  // its relative difference, where that is the yardstick
  int64_t left_out = 0;            // parameters: elements whose gradient is not resolved
  bool passed() const { return relative <= tolerance; }  // false for NaN
};

struct Tolerances {
  // Relative; beside autocast the least that is tolerated. In 16 bits a norm may be off by one rounding, a
  // loss by an eighth of it.
  double loss = 0, norm = 0, gradient = 0, parameter = 0;
  // A gradient's element below this share of its tensor's root mean square is not resolved; beside autocast,
  // if that is more, three times its relative difference. Even in exact arithmetic some are 0 that floating
  // point makes 1e-17 (attention's key bias).
  double noise = 0;
  int flipped = 0;  // elements of a parameter, see above
};

// InputError for a precision that there is no yardstick for.
Tolerances tolerances(spec::Precision precision);
// The autocast that measures it ("bf16", "fp16"), empty for none.
std::string autocast_of(spec::Precision precision);

// What the yardstick allows a tensor of `elements` elements that autocast has `relative` to float64.
double allowed_beside_autocast(double relative, size_t elements);

// `reference`: the oracle's result.safetensors for the same batches, with autocast's results where the
// precision needs them. Of the spec, precision and optimizer are looked at. InputError that names a tensor
// that is not there, or has another number of elements.
std::vector<Difference> compare(const Training& ours, const runtime::SafetensorsReader& reference,
                                const spec::Spec& spec);

}  // namespace hydrac::verify
