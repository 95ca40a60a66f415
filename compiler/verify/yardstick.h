// Tolerances for a program's distance from float64. They come from its precision alone, or from the error of
// a second run of the oracle.
#pragma once
#include <cstddef>
#include <string>

#include "spec/spec.h"

namespace hydrac::verify {

inline constexpr double kChance = 3;  // standard deviations that are left to luck

struct Tolerances {
  // Relative; with a yardstick, the least tolerance. In 16 bits a norm may be off by one rounding, a loss by
  // an eighth of it.
  double loss = 0, norm = 0, gradient = 0, parameter = 0;
  // Gradient elements below this share of their tensor's root mean square are not resolved. With an autocast
  // yardstick it is at least three times autocast's relative difference. Some elements, such as those of
  // attention's key bias, are 0 in exact arithmetic and about 1e-17 in floating point.
  double noise = 0;
  int flipped = 0;  // elements of a parameter that may have gone the other way in all steps
  // For 8-bit moments, relative. Neighbouring codes differ by the share s. A moment that is off by the share
  // d gets a wrong code with probability d / s, and is then off by s, so its mean square error is d s. 0 with
  // a yardstick, whose moments have codes too.
  double moment = 0;
  // For routers that choose tokens: the share of tokens whose score is closer than rounding to that of the
  // last chosen one.
  double choices = 0;
  // For stochastically rounded parameters, relative: the distance of one element to its other neighbour. By
  // chance a small tensor may have one such element, and the yardstick none.
  double rounding = 0;
};

// Tolerances for a spec's precision and for how its state is rounded. InputError for a precision without a
// yardstick.
Tolerances tolerances(const spec::Spec& spec);

// The oracle's second run, of which at most one is set.
// - `autocast`, for 16 bits: the same training under PyTorch's autocast to this type ("bf16", "fp16").
// - `gradient_noise`, for Lion in fp32 and tf32: in float64, with relative noise of this size in gradients:
//   the tolerance of a gradient. Lion takes signs, so one sign that rounding flips flips hundreds more two
//   steps later. How many flip is chance (none with one seed, a thousandth of all elements with the next).
//   This run shows how far apart two runs may be.
struct Yardstick {
  std::string autocast;
  double gradient_noise = 0;

  // Prefix of the names of its results: "autocast.", "noisy."; empty if there is none.
  std::string prefix() const;
  bool measures_gradients() const { return !autocast.empty(); }
};
Yardstick yardstick_of(const spec::Spec& spec);

// The error that the yardstick allows a tensor of `elements` elements that is itself `relative` off: 1.25
// times that, and luck. The logarithm of the root mean square of n errors scatters by 1 / sqrt(2 n), that of
// two of them by 1 / sqrt(n), and three times that is allowed: a factor of exp(3 / sqrt(n)). Two errors
// scatter more: the squared ratio r of two pairs' is beyond x with the probability 1 / (1 + x), an F
// distribution, and r = 19 is as rare as three deviations. A loss or a norm is one number; its elements are
// those of all steps.
double allowed_beside(double relative, double elements);

// The number of normally distributed errors whose root mean square scatters as much as that of these `count`
// errors, given the sums of their squares and fourth powers; at most `count`. The mean square of n errors
// scatters by sqrt(S4 / S2^2 - 1 / n) of itself, that of normal ones by sqrt(2 / n). So a parameter in which
// a few elements went the other way, and are a thousand times as far off as the rest, counts as few elements.
double effective_elements(std::size_t count, double squares, double fourth_powers);

}  // namespace hydrac::verify
