#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "optimizers/rounding.h"
#include "runtime/error.h"

namespace hydrac::verify {

namespace {

constexpr double kBesideAutocast = 1.25, kChance = 3;

// Squared norms of a difference and of the reference, summed over slots.
struct Sums {
  double difference = 0, reference = 0;
  double relative() const {
    return reference > 0 ? std::sqrt(difference / reference) : std::sqrt(difference);
  }
};

template <typename T>
void add(Sums& sums, const std::vector<T>& ours, const std::vector<double>& reference) {
  for (size_t i = 0; i < ours.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - reference[i];
    sums.difference += d * d;
    sums.reference += reference[i] * reference[i];
  }
}

// Which elements of a slot have a resolved gradient, or none at all (rows of tokens that did not occur).
std::vector<bool> has_gradient(const std::vector<double>& gradient, double noise) {
  double square = 0;
  for (double g : gradient) square += g * g;
  const double least = noise * std::sqrt(square / static_cast<double>(gradient.size()));
  std::vector<bool> has(gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) has[i] = gradient[i] == 0 || std::abs(gradient[i]) > least;
  return has;
}

// Elements that are not `kept` become 0; how many.
template <typename T>
int64_t leave_out(std::vector<T>& values, const std::vector<bool>& kept) {
  int64_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (kept[i]) continue;
    values[i] = 0;
    ++count;
  }
  return count;
}

// A tensor as everybody has it: ours, float64's, and autocast's where that is asked for.
struct Versions {
  std::vector<float> ours;
  std::vector<double> reference, autocast;
};

// Differences from the reference, summed over a tensor's slots.
struct Errors {
  Sums ours, autocast;
  size_t elements = 0;

  void add(const Versions& slot) {
    verify::add(ours, slot.ours, slot.reference);
    verify::add(autocast, slot.autocast, slot.reference);
    elements += slot.reference.size();
  }
};

// Where the oracle replays the noise of stochastic rounding, what is off by d still goes to the other of its
// two neighbours with the probability d / ulp: a mean square of d ulp. Autocast's results have that error
// too.
Tolerances tolerances_of(const spec::Spec& spec) {
  constexpr double kUlp = 0x1p-7;  // of bf16, relative
  Tolerances least = tolerances(spec.optimizations.precision);
  if (optimizers::rounds_stochastically(spec) && autocast_of(spec.optimizations.precision).empty())
    least.parameter = std::sqrt(least.parameter * kUlp);
  return least;
}

class Comparison {
 public:
  Comparison(const Training& ours, const runtime::SafetensorsReader& reference, const spec::Spec& spec)
      : ours_(ours),
        reference_(reference),
        least_(tolerances_of(spec)),
        yardstick_(!autocast_of(spec.optimizations.precision).empty()),
        divides_by_gradient_(spec.train.optimizer.name != spec::Optimizer::sgd),
        takes_signs_(spec.train.optimizer.name == spec::Optimizer::lion) {}

  std::vector<Difference> run() {
    add_numbers("loss", least_.loss, [](const runtime::StepResult& step) { return step.loss; });
    add_numbers("grad_norm", least_.norm, [](const runtime::StepResult& step) { return step.grad_norm; });
    std::ranges::stable_sort(differences_, {}, &Difference::name);  // by step, each with loss and norm
    for (const auto& [name, slots] : ours_.gradients) add_gradient(name, slots);
    for (const auto& [name, slots] : ours_.parameters) add_parameter(name, slots);
    return std::move(differences_);
  }

 private:
  std::vector<double> read(const std::string& name, size_t elements) const {
    const auto bytes = reference_.bytes(reference_.at(name));
    if (bytes.size() != elements * sizeof(double)) {
      throw runtime::InputError(fmt::format("{}: {} has {} bytes, {} float64 numbers are wanted",
                                            reference_.label(), name, bytes.size(), elements));
    }
    std::vector<double> values(elements);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  Versions versions(const std::string& name, const std::vector<float>& ours) const {
    Versions versions{ours, read(name, ours.size()), {}};
    if (yardstick_) versions.autocast = read("autocast." + name, ours.size());
    return versions;
  }

  void add_numbers(const std::string& what, double least, float (*of)(const runtime::StepResult&)) {
    double worst = 0;  // of autocast's
    std::vector<Difference> rows;
    for (size_t s = 0; s < ours_.steps.size(); ++s) {
      const Versions number = versions(fmt::format("{}.s{}", what, s), {of(ours_.steps[s])});
      const auto relative = [&](double x) {
        return std::abs(x - number.reference[0]) / std::abs(number.reference[0]);
      };
      Difference row{what, fmt::format("step {}", s), relative(number.ours[0]), least, {}, 0};
      if (yardstick_) {
        row.autocast = relative(number.autocast[0]);
        worst = std::max(worst, *row.autocast);
      }
      rows.push_back(std::move(row));
    }
    for (Difference& row : rows) {
      row.tolerance = std::max(row.tolerance, kBesideAutocast * worst);
      differences_.push_back(std::move(row));
    }
  }

  Difference difference(const std::string& what, const std::string& name, const Errors& errors,
                        double least) const {
    Difference row{what, name, errors.ours.relative(), least, {}, 0};
    if (!yardstick_) return row;
    row.autocast = errors.autocast.relative();
    row.tolerance = std::max(least, allowed_beside_autocast(*row.autocast, errors.elements));
    return row;
  }

  void add_gradient(const std::string& name, const std::vector<std::vector<float>>& slots) {
    Errors errors;
    for (size_t slot = 0; slot < slots.size(); ++slot)
      errors.add(versions(fmt::format("grad.{}.{}", name, slot), slots[slot]));
    differences_.push_back(difference("gradient", name, errors, least_.gradient));
    gradient_errors_[name] = differences_.back().tolerance;
    noise_[name] = std::max(least_.noise, 3 * (yardstick_ ? errors.autocast.relative() : 0));
  }

  void add_parameter(const std::string& name, const std::vector<std::vector<float>>& slots) {
    Errors errors;
    int64_t left_out = 0;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      Versions values = versions(fmt::format("param.{}.{}", name, slot), slots[slot]);
      if (divides_by_gradient_) {
        const auto kept =
            has_gradient(read(fmt::format("grad.{}.{}", name, slot), slots[slot].size()), noise_.at(name));
        left_out += leave_out(values.ours, kept);
        leave_out(values.reference, kept);
        if (yardstick_) leave_out(values.autocast, kept);
      }
      errors.add(values);
    }
    Difference row = difference("parameter", name, errors, least_.parameter);
    if (divides_by_gradient_) {
      row.tolerance = std::hypot(row.tolerance, whole_steps(least_.flipped, errors.ours.reference));
    }
    if (takes_signs_) {
      const double flips = changed_signs(static_cast<double>(errors.elements), gradient_errors_.at(name));
      row.tolerance = std::hypot(row.tolerance, whole_steps(flips, errors.ours.reference));
    }
    row.left_out = left_out;
    differences_.push_back(std::move(row));
  }

  // How far it is, relative to a tensor of this squared norm, when so many of its elements made each of their
  // steps in the other direction.
  double whole_steps(double elements, double squared_norm) const {
    double way = 0;
    for (const runtime::StepResult& step : ours_.steps) way += 2 * static_cast<double>(step.learning_rate);
    return squared_norm > 0 ? std::sqrt(elements / squared_norm) * way : 0;
  }

  // How many of so many elements may have taken another sign than float64's in a step after the first: the
  // expected number and three standard deviations of it, at least one element.
  double changed_signs(double elements, double relative_error) const {
    const double later_steps = static_cast<double>(ours_.steps.size()) - 1;
    const double expected = later_steps * elements * relative_error / std::numbers::pi;
    return expected + kChance * std::sqrt(expected) + 1;
  }

  const Training& ours_;
  const runtime::SafetensorsReader& reference_;
  const Tolerances least_;
  const bool yardstick_, divides_by_gradient_, takes_signs_;
  std::map<std::string, double> noise_;            // of each gradient, as a share of its root mean square
  std::map<std::string, double> gradient_errors_;  // tolerated, relative
  std::vector<Difference> differences_;
};

}  // namespace

Tolerances tolerances(spec::Precision precision) {
  switch (precision) {
    case spec::Precision::fp32:
      return {1e-5, 1e-4, 1e-4, 1e-4, 1e-4, 0};
    case spec::Precision::tf32:
      return {3e-4, 3e-3, 3e-3, 3e-3, 3e-3, 4};
    case spec::Precision::bf16:
      return {5e-4, 4e-3, 1e-4, 1e-4, 1e-6, 4};
    case spec::Precision::fp16:
      return {6e-5, 5e-4, 1e-4, 1e-4, 1e-6, 4};
    case spec::Precision::fp8:
      break;
  }
  throw runtime::InputError(
      "verify has no yardstick for optimizations.precision: fp8; write fp32, tf32, bf16 or fp16");
}

std::string autocast_of(spec::Precision precision) {
  const bool narrow = precision == spec::Precision::bf16 || precision == spec::Precision::fp16;
  return narrow ? std::string(to_string(precision)) : "";
}

double allowed_beside_autocast(double relative, size_t elements) {
  return kBesideAutocast * relative * (1 + kChance / std::sqrt(static_cast<double>(elements)));
}

std::vector<Difference> compare(const Training& ours, const runtime::SafetensorsReader& reference,
                                const spec::Spec& spec) {
  return Comparison(ours, reference, spec).run();
}

}  // namespace hydrac::verify
