#include "verify/yardstick.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "optimizers/rounding.h"
#include "spec/keys/optimizer_table.h"

namespace hydrac::verify {

namespace {

constexpr double kBeside = 1.25;
constexpr double kBeyondChance = 0.0027;  // how often a normal number is kChance deviations off

bool is_narrow(spec::Precision precision) {
  return precision == spec::Precision::bf16 || precision == spec::Precision::fp16 ||
         precision == spec::Precision::fp8;
}

Tolerances of_precision(spec::Precision precision) {
  switch (precision) {
    case spec::Precision::fp32:
      return {1e-5, 1e-4, 1e-4, 1e-4, 1e-4, 0};
    case spec::Precision::tf32:
      return {3e-4, 3e-3, 3e-3, 3e-3, 3e-3, 4};
    case spec::Precision::bf16:
    case spec::Precision::fp8:
      return {5e-4, 4e-3, 1e-4, 1e-4, 1e-6, 4};
    case spec::Precision::fp16:
      return {6e-5, 5e-4, 1e-4, 1e-4, 1e-6, 4};
  }
  throw std::logic_error("no such precision");
}

}  // namespace

// When the oracle replays the noise of stochastic rounding, an element that is off by d rounds to the other
// of its two neighbours with probability d / ulp. That is a mean square error of d ulp, and autocast's
// results have it too.
Tolerances tolerances(const spec::Spec& spec) {
  constexpr double kUlp = 0x1p-7;  // of bf16, relative
  Tolerances least = of_precision(spec.optimizations.precision);
  if (optimizers::rounds_stochastically(spec) && !is_narrow(spec.optimizations.precision))
    least.parameter = std::sqrt(least.parameter * kUlp);
  constexpr double kNearTies = 2e-3, kNarrowNearTies = 5e-2;
  least.choices = spec::computes_in_32_bits(spec.optimizations.precision) ? kNearTies : kNarrowNearTies;
  if (spec.optimizations.weights == spec::WeightType::bf16) least.rounding = kUlp;
  constexpr double kCode = 0.9 / 64;  // from a code of numbers between 0.1 and 1 to the next
  const bool has_yardstick = !yardstick_of(spec).prefix().empty();
  if (spec.optimizations.optimizer_state == spec::StateType::int8 && !has_yardstick)
    least.moment = std::sqrt(least.gradient * kCode);
  return least;
}

std::string Yardstick::prefix() const {
  return !autocast.empty() ? "autocast." : gradient_noise > 0 ? "noisy." : "";
}

Yardstick yardstick_of(const spec::Spec& spec) {
  const spec::Precision precision = spec.optimizations.precision;
  if (precision == spec::Precision::fp8) return {"bf16", 0};  // but for the matmuls that the job names
  if (is_narrow(precision)) return {std::string(to_string(precision)), 0};
  return {"", spec::row_of(spec.train.optimizer.name).takes_signs ? of_precision(precision).gradient : 0};
}

double allowed_beside(double relative, double elements) {
  double luck = std::exp(kChance / std::sqrt(elements));
  if (elements <= 2) luck = std::max(luck, std::sqrt(1 / kBeyondChance - 1));
  return kBeside * relative * luck;
}

double effective_elements(std::size_t count, double squares, double fourth_powers) {
  const auto n = static_cast<double>(count);
  const double scatter = squares > 0 ? fourth_powers / (squares * squares) - 1 / n : 0;
  return scatter * n > 2 ? 2 / scatter : n;
}

}  // namespace hydrac::verify
