// The comparison with the oracle: loss, every parameter's gradient, and the parameters after some optimizer
// steps.
#pragma once
#include <string>
#include <vector>

#include "verify/job.h"

namespace hydrac::verify {

// ||ours - reference|| / ||reference|| of one tensor, all its slots together.
struct Difference {
  std::string what;  // "loss", "gradient", "parameter"
  std::string name;
  double relative = 0;
  double tolerance = 0;
  int64_t left_out = 0;  // parameters: elements without a gradient to speak of, see kNoise
  bool passed() const { return relative <= tolerance; }  // false for NaN
};

// Tolerances for fp32 (relative): forward 1e-5, gradients 1e-4.
inline constexpr double kLossTolerance = 1e-5, kGradientTolerance = 1e-4, kParameterTolerance = 1e-4;

// A gradient element below this share of its tensor's root mean square is rounding noise (attention's key
// bias has a gradient of exactly 0 in exact arithmetic). Optimizers that divide by the gradient's size turn
// noise into full steps, so such elements are not compared after them; their gradients are.
inline constexpr double kNoise = 1e-6;

// Trains `steps` steps on random batches here and in the oracle, from the same parameters. `program` is
// initialized and left as the steps leave it.
std::vector<Difference> compare(targets::Executable& program, int64_t steps,
                                const std::filesystem::path& oracle, const std::filesystem::path& job_dir);

}  // namespace hydrac::verify
