#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "runtime/error.h"
#include "spec/keys/optimizer_table.h"

namespace hydrac::verify {

namespace {

constexpr std::string_view kLoraA = ".lora_a";  // in the names of adapters' A

// Squared norms of a difference and of the reference, and the difference's fourth powers, summed over slots.
struct Sums {
  double difference = 0, reference = 0, fourth = 0;
  double relative() const {
    return reference > 0 ? std::sqrt(difference / reference) : std::sqrt(difference);
  }
};

template <typename T>
void add(Sums& sums, const std::vector<T>& ours, const std::vector<double>& reference) {
  for (size_t i = 0; i < ours.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - reference[i];
    sums.difference += d * d;
    sums.fourth += d * d * d * d;
    sums.reference += reference[i] * reference[i];
  }
}

// True for elements of a slot that have a resolved gradient, or that have none in both (rows of tokens that
// did not occur). An exact 0 in the reference alone is luck of its rounding.
std::vector<bool> has_gradient(const std::vector<double>& reference, const std::vector<float>& ours,
                               double noise) {
  double square = 0;
  for (double g : reference) square += g * g;
  const double least = noise * std::sqrt(square / static_cast<double>(reference.size()));
  std::vector<bool> has(reference.size());
  for (size_t i = 0; i < reference.size(); ++i)
    has[i] = (reference[i] == 0 && ours[i] == 0) || std::abs(reference[i]) > least;
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

// A tensor as everybody has it: ours, float64's, and the yardstick's where that is asked for.
struct Versions {
  std::vector<float> ours;
  std::vector<double> reference, yardstick;
};

// Differences from the reference, summed over a tensor's slots.
struct Errors {
  Sums ours, yardstick;
  size_t elements = 0;

  void add(const Versions& slot) {
    verify::add(ours, slot.ours, slot.reference);
    verify::add(yardstick, slot.yardstick, slot.reference);
    elements += slot.reference.size();
  }
  double effective() const { return effective_elements(elements, yardstick.difference, yardstick.fourth); }
};

class Comparison {
 public:
  Comparison(const Training& ours, const runtime::SafetensorsReader& reference, const spec::Spec& spec)
      : ours_(ours),
        reference_(reference),
        least_(tolerances(spec)),
        yardstick_(yardstick_of(spec)),
        divides_by_gradient_(spec::row_of(spec.train.optimizer.name).divides_by_gradient),
        takes_signs_(spec::row_of(spec.train.optimizer.name).takes_signs) {}

  std::vector<Difference> run() {
    const double of_losses =
        add_numbers("loss", least_.loss, of_steps("loss", [](const Step& step) { return step.loss; }));
    // This loss is of fewer targets than a step's, and after one update more: it has a yardstick of its own.
    add_numbers("loss", of_losses,
                {{"evaluation", "loss.evaluation", static_cast<float>(ours_.evaluation), true}});
    // With model.mor this loss depends on variances, in which differences cancel. In bf16 autocast's error is
    // a fifteenth of a rounding in one step, and half of one in another.
    if (ours_.steps[0].metric("aux_loss"))
      add_numbers("aux_loss", yardstick_.measures_gradients() ? least_.norm : least_.loss,
                  of_steps("aux_loss", [](const Step& step) { return step.metric("aux_loss").value_or(0); }));
    add_numbers("grad_norm", least_.norm,
                of_steps("grad_norm", [](const Step& step) { return step.grad_norm; }));
    // By step, each with loss and norm; the evaluation comes last.
    std::ranges::stable_sort(differences_, {}, [](const Difference& row) {
      return std::pair(row.name == "evaluation", row.name);
    });
    if (!ours_.choices.empty())
      differences_.push_back({"choices", "router", read("choices.differing", 1)[0], least_.choices, {}, 0});
    for (const auto& [name, slots] : ours_.gradients) add_gradient(name, slots);
    for (const auto& [name, slots] : ours_.parameters) add_parameter(name, slots);
    for (const auto& [name, slots] : ours_.frozen) add_frozen(name, slots);
    return std::move(differences_);
  }

 private:
  bool has_yardstick() const { return !yardstick_.prefix().empty(); }

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

  // `measured`: true if the yardstick has this tensor too.
  Versions versions(const std::string& name, const std::vector<float>& ours, bool measured) const {
    Versions versions{ours, read(name, ours.size()), {}};
    if (measured) versions.yardstick = read(yardstick_.prefix() + name, ours.size());
    return versions;
  }

  using Step = runtime::StepResult;

  // One number of a training.
  struct Number {
    std::string row, key;  // as the comparison and the oracle's results name it
    float ours;
    bool follows_update;
  };

  std::vector<Number> of_steps(const std::string& what, float (*of)(const Step&)) const {
    std::vector<Number> numbers;
    for (size_t s = 0; s < ours_.steps.size(); ++s)
      numbers.push_back(
          {fmt::format("step {}", s), fmt::format("{}.s{}", what, s), of(ours_.steps[s]), s > 0});
    return numbers;
  }

  // Returns the largest tolerance.
  double add_numbers(const std::string& what, double least, const std::vector<Number>& numbers) {
    Errors errors;  // of all that the yardstick measures
    std::vector<Difference> rows;
    for (const Number& number : numbers) {
      // Noisy gradients change nothing before the first update.
      const bool measured = yardstick_.measures_gradients() || (has_yardstick() && number.follows_update);
      const Versions values = versions(number.key, {number.ours}, measured);
      const auto relative = [&](double x) {
        const double size = std::abs(values.reference[0]), off = std::abs(x - values.reference[0]);
        return size > 0 ? off / size : off;  // an auxiliary loss may be 0
      };
      Difference row{what, number.row, relative(values.ours[0]), least, {}, 0};
      if (measured) {
        row.yardstick = relative(values.yardstick[0]);
        errors.add(values);
      }
      rows.push_back(std::move(row));
    }
    double largest = 0;
    for (Difference& row : rows) {
      if (row.yardstick)
        row.tolerance = std::max(
            row.tolerance, allowed_beside(errors.yardstick.relative(), static_cast<double>(errors.elements)));
      largest = std::max(largest, row.tolerance);
      differences_.push_back(std::move(row));
    }
    return largest;
  }

  Difference difference(const std::string& what, const std::string& name, const Errors& errors, double least,
                        bool measured) const {
    Difference row{what, name, errors.ours.relative(), least, {}, 0};
    if (!measured) return row;
    row.yardstick = errors.yardstick.relative();
    // add_parameter() decides how many sign flips noise may explain.
    const double n =
        yardstick_.measures_gradients() ? errors.effective() : static_cast<double>(errors.elements);
    row.tolerance = std::max(least, allowed_beside(*row.yardstick, n));
    return row;
  }

  // The gradient of a bias of one number, such as a router's, is a sum over all tokens, whose terms may
  // cancel. Its error is therefore relative to the gradients of the layer's weight and bias together.
  void measure_by_weight(const std::string& name, Errors& errors) const {
    const size_t bias = name.find(".bias");
    if (bias == std::string::npos || errors.elements != ours_.gradients.at(name).size()) return;
    const std::string weight = name.substr(0, bias) + ".weight" + name.substr(bias + 5);
    const auto found = ours_.gradients.find(weight);
    if (found == ours_.gradients.end()) return;
    for (size_t slot = 0; slot < found->second.size(); ++slot) {
      for (const double x : read(fmt::format("grad.{}.{}", weight, slot), found->second[slot].size())) {
        errors.ours.reference += x * x;
        errors.yardstick.reference += x * x;
      }
    }
  }

  void add_gradient(const std::string& name, const std::vector<std::vector<float>>& slots) {
    Errors errors;
    const bool measured = yardstick_.measures_gradients();
    for (size_t slot = 0; slot < slots.size(); ++slot)
      errors.add(versions(fmt::format("grad.{}.{}", name, slot), slots[slot], measured));
    measure_by_weight(name, errors);
    differences_.push_back(difference("gradient", name, errors, least_.gradient, measured));
    gradient_errors_[name] = differences_.back().tolerance;
    noise_[name] = std::max(least_.noise, measured ? 3 * errors.yardstick.relative() : 0);
  }

  // True for elements of a parameter that have a gradient in the first step that is no rounding noise.
  std::vector<bool> is_resolved(const std::string& name, size_t slot) const {
    const std::vector<float>& ours = ours_.gradients.at(name)[slot];
    return has_gradient(read(fmt::format("grad.{}.{}", name, slot), ours.size()), ours, noise_.at(name));
  }

  // An adapter's A has no gradient while its B is 0, and then a gradient that comes from B's first step. So
  // if a column of B has an element whose step is noise, the row of A with that rank is left out too.
  std::vector<bool> is_reached_by_none(const std::string& a, size_t slot, size_t elements) const {
    std::string b = a;
    b[a.find(kLoraA) + kLoraA.size() - 1] = 'b';
    const auto rank = static_cast<size_t>(ours_.columns.at(b)),
               row = static_cast<size_t>(ours_.columns.at(a));
    const std::vector<bool> resolved = is_resolved(b, slot);
    std::vector<bool> ranks(rank, true), kept(elements);
    for (size_t i = 0; i < resolved.size(); ++i)
      if (!resolved[i]) ranks[i % rank] = false;
    for (size_t i = 0; i < elements; ++i) kept[i] = ranks[i / row % rank];
    return kept;
  }

  void add_parameter(const std::string& name, const std::vector<std::vector<float>>& slots) {
    Errors errors;
    int64_t left_out = 0;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      Versions values = versions(fmt::format("param.{}.{}", name, slot), slots[slot], has_yardstick());
      if (divides_by_gradient_) {
        const std::vector<bool> kept = name.find(kLoraA) != std::string::npos
                                           ? is_reached_by_none(name, slot, slots[slot].size())
                                           : is_resolved(name, slot);
        left_out += leave_out(values.ours, kept);
        leave_out(values.reference, kept);
        if (has_yardstick()) leave_out(values.yardstick, kept);
      }
      errors.add(values);
    }
    Difference row = difference("parameter", name, errors, least_.parameter, has_yardstick());
    row.tolerance =
        std::hypot(row.tolerance,
                   least_.rounding / std::sqrt(static_cast<double>(std::max<int64_t>(errors.elements, 1))));
    if (divides_by_gradient_) {
      row.tolerance = std::hypot(row.tolerance, whole_steps(least_.flipped, errors.ours.reference));
      // An element's step is off by as much as its moments are.
      const double of_steps = whole_steps(static_cast<double>(errors.elements), errors.ours.reference) / 2;
      row.tolerance = std::hypot(row.tolerance, least_.moment * of_steps);
    }
    if (takes_signs_) {
      // With noisy gradients: flips that a small tensor may have by chance when the yardstick has none.
      const double flips =
          yardstick_.measures_gradients()
              ? changed_signs(static_cast<double>(errors.elements), gradient_errors_.at(name))
              : 1;
      row.tolerance = std::hypot(row.tolerance, whole_steps(flips, errors.ours.reference));
    }
    row.left_out = left_out;
    differences_.push_back(std::move(row));
  }

  void add_frozen(const std::string& name, const std::vector<std::vector<float>>& slots) {
    Sums sums;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      const std::vector<float>& before = ours_.frozen_before.at(name)[slot];
      add(sums, slots[slot], {before.begin(), before.end()});
    }
    differences_.push_back({"frozen", name, sums.relative(), 0, {}, 0});
  }

  // The distance, relative to a tensor of this squared norm, if so many of its elements make every step in
  // the opposite direction.
  double whole_steps(double elements, double squared_norm) const {
    double way = 0;
    for (const runtime::StepResult& step : ours_.steps) way += 2 * static_cast<double>(step.learning_rate);
    return squared_norm > 0 ? std::sqrt(elements / squared_norm) * way : 0;
  }

  // How many of so many elements may have another sign than in float64 in a step after the first: the
  // expected number and three standard deviations, at least one element.
  double changed_signs(double elements, double relative_error) const {
    const double later_steps = static_cast<double>(ours_.steps.size()) - 1;
    const double expected = later_steps * elements * relative_error / std::numbers::pi;
    return expected + kChance * std::sqrt(expected) + 1;
  }

  const Training& ours_;
  const runtime::SafetensorsReader& reference_;
  const Tolerances least_;
  const Yardstick yardstick_;
  const bool divides_by_gradient_, takes_signs_;
  std::map<std::string, double> noise_;            // of each gradient, as a share of its root mean square
  std::map<std::string, double> gradient_errors_;  // tolerated, relative
  std::vector<Difference> differences_;
};

}  // namespace

std::vector<Difference> compare(const Training& ours, const runtime::SafetensorsReader& reference,
                                const spec::Spec& spec) {
  return Comparison(ours, reference, spec).run();
}

}  // namespace hydrac::verify
