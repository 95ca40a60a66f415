#include "oracle/aten/op.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cmath>

#include "oracle/job/error.h"
#include "oracle/job/random.h"

namespace hydrac::oracle {

const at::Tensor& OpCall::input(std::size_t i) const {
  if (!node.inputs[i]) throw JobError(fmt::format("input {} is left out", i));
  if (!inputs[i].defined())
    throw JobError(fmt::format("the job has no tensor for \"{}\"", graph.values[node.inputs[i]->value].name));
  return inputs[i];
}

at::Tensor OpCall::optional_input(std::size_t i) const {
  return i < node.inputs.size() && node.inputs[i] ? input(i) : at::Tensor();
}

double OpCall::attr(const std::string& name) const {
  const auto found = node.attrs.find(name);
  if (found == node.attrs.end()) throw JobError(fmt::format("attribute \"{}\" is missing", name));
  return found->second;
}

double OpCall::attr(const std::string& name, double fallback) const {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? fallback : found->second;
}

at::Tensor dropout_multiplier(const OpCall& call, at::IntArrayRef shape, double p, std::size_t step_input,
                              const at::TensorOptions& options,
                              const std::function<std::uint64_t(std::int64_t)>& random_index) {
  if (!(p >= 0 && p < 1)) throw JobError(fmt::format("the dropout probability {} is not in [0, 1)", p));
  const auto step = static_cast<std::uint32_t>(call.input(step_input).item<std::int64_t>());
  const auto site = static_cast<std::uint32_t>(call.attr("site"));
  const std::uint32_t key =
      random_key(call.seed, step, site * 65536u + static_cast<std::uint32_t>(call.layer));
  const auto threshold = static_cast<std::uint32_t>(std::ldexp(p, 16));

  at::Tensor multiplier = at::empty(shape, at::kDouble);
  double* elements = multiplier.data_ptr<double>();
  for (std::int64_t i = 0; i < multiplier.numel(); ++i)
    elements[i] = random_16_bits(key, random_index(i)) >= threshold ? 1 / (1 - p) : 0.0;
  return multiplier.to(options);
}

}  // namespace hydrac::oracle
