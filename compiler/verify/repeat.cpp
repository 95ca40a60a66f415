#include "verify/repeat.h"

#include <bit>
#include <cstdint>

namespace hydrac::verify {

namespace {

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}

void compare(Sameness& same, const std::string& name, const std::vector<std::vector<float>>& a,
             const std::vector<std::vector<float>>& b) {
  ++same.compared;
  if (!std::ranges::equal(a, b, equal_bits)) same.differing.push_back(name);
}

std::vector<std::vector<float>> column(const Training& training,
                                       float (*number)(const runtime::StepResult&)) {
  std::vector<float> numbers;
  for (const runtime::StepResult& step : training.steps) numbers.push_back(number(step));
  return {numbers};
}

}  // namespace

Sameness compare_bits(std::string what, const Training& a, const Training& b) {
  Sameness same{std::move(what), 0, {}};
  using Step = runtime::StepResult;
  const std::pair<const char*, float (*)(const Step&)> numbers[] = {
      {"loss", [](const Step& s) { return s.loss; }},
      {"aux_loss", [](const Step& s) { return s.metric("aux_loss").value_or(0); }},
      {"grad_norm", [](const Step& s) { return s.grad_norm; }},
      {"learning_rate", [](const Step& s) { return s.learning_rate; }},
      {"loss_scale", [](const Step& s) { return s.loss_scale.value_or(0); }}};
  for (const auto& [name, number] : numbers) compare(same, name, column(a, number), column(b, number));
  compare(same, "evaluation", {{static_cast<float>(a.evaluation)}}, {{static_cast<float>(b.evaluation)}});
  for (const auto& [name, slots] : a.gradients)
    compare(same, "gradient " + name, slots,
            b.gradients.contains(name) ? b.gradients.at(name) : Tensors::mapped_type{});
  for (const auto& [name, slots] : a.parameters)
    compare(same, "parameter " + name, slots,
            b.parameters.contains(name) ? b.parameters.at(name) : Tensors::mapped_type{});
  return same;
}

}  // namespace hydrac::verify
