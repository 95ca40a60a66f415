#include "oracle/aten/random_data.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

RandomData::RandomData(const Graph& graph, int accumulation)
    : graph_(graph), accumulation_(accumulation), purposes_(graph.values.size()) {
  for (const Region& region : graph.regions)
    for (const Node& node : region.nodes) learn(node);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.role != Role::input) continue;
    if (purposes_[i].use == Use::unused && value.dtype == Dtype::f32) purposes_[i].use = Use::features;
    if (purposes_[i].use == Use::unused)
      throw JobError(fmt::format("nothing says what numbers input \"{}\" may hold", value.name));
  }
}

const std::vector<std::int64_t>& RandomData::shape(const Node& node, std::size_t input) const {
  if (!node.inputs[input]) throw JobError(fmt::format("{}: input {} is left out", node.op, input));
  const std::vector<std::int64_t>& shape = graph_.values[node.inputs[input]->value].shape;
  if (shape.empty()) throw JobError(fmt::format("{}: input {} is a scalar", node.op, input));
  return shape;
}

void RandomData::note(const Node& node, std::size_t input, Use use, std::int64_t range) {
  if (input < node.inputs.size() && node.inputs[input]) purposes_[node.inputs[input]->value] = {use, range};
}

void RandomData::learn(const Node& node) {
  if (node.op == "embedding") note(node, 0, Use::indices, shape(node, 1)[0]);
  if (node.op == "cross_entropy") note(node, 1, Use::indices, shape(node, 0).back());
  if (node.op == "mean_loss") note(node, 1, Use::inverse_count, product(shape(node, 0)));
  if (node.op == "linear" || node.op == "layernorm") note(node, 2, Use::bias);
  if (node.op == "bias_add") note(node, 1, Use::bias);
  if (node.op == "token_score") note(node, 2, Use::bias);
  if (node.op == "dropout") note(node, 1, Use::step_counter);
  if (node.op == "auxiliary_loss") note(node, 1, Use::step_counter);
  if (node.op == "attention") note(node, 3, Use::step_counter);
  if (node.op == "attention") note(node, 4, Use::documents);
  if (node.op == "causal_conv") note(node, 2, Use::documents);
  if (node.op == "value_shift") note(node, 1, Use::documents);
  if (node.op == "choose_tokens" || node.op == "choose_experts" || node.op == "recursion_depth")
    note(node, 1, Use::indices, 1);  // which are not read
  if (node.op == "rope") note(node, 3, Use::positions);
  if (node.op == "position_embedding") note(node, 2, Use::positions);
}

at::Tensor RandomData::parameter(int value) const {
  const std::vector<std::int64_t>& shape = graph_.values[value].shape;
  if (purposes_[value].use == Use::bias) return at::zeros(shape, at::kFloat);
  if (shape.size() < 2) return at::ones(shape, at::kFloat);
  constexpr double kDeviation = 0.02;
  return at::randn(shape, at::kFloat).mul_(kDeviation);
}

at::Tensor RandomData::input(int value, int step) const {
  const std::vector<std::int64_t>& shape = graph_.values[value].shape;
  const Purpose& purpose = purposes_[value];
  switch (purpose.use) {
    case Use::indices:
      return at::randint(purpose.range, shape, at::kLong);
    case Use::step_counter:
      return at::full(shape, step, at::kLong);
    // Documents that are whole sequences: LibTorch's work is the same whatever they are.
    case Use::documents:
      return at::stack(
          {at::zeros({shape[0], shape[1]}, at::kLong), at::full({shape[0], shape[1]}, shape[1], at::kLong)},
          -1);
    case Use::positions:
      return at::arange(shape[1], at::kLong).repeat({shape[0], 1});
    case Use::inverse_count:
      return at::full(shape, 1.0 / static_cast<double>(purpose.range * accumulation_), at::kFloat);
    default:
      return at::randn(shape, at::kFloat);
  }
}

std::int64_t RandomData::positions() const {
  std::int64_t most = 1;
  for (const Value& value : graph_.values) {
    if (value.role != Role::input || value.shape.empty()) continue;
    const bool has_columns =
        value.dtype == Dtype::f32 ||
        purposes_[static_cast<std::size_t>(&value - graph_.values.data())].use == Use::documents;
    const std::int64_t row = has_columns ? value.shape.back() : 1;
    most = std::max(most, product(value.shape) / row);
  }
  return most;
}

}  // namespace hydrac::oracle
