#include "optimizers/moments.h"

#include <stdexcept>

namespace hydrac::optimizers {

using ir::DType;
using ir::Role;

DType moment_type(const spec::Spec& spec) {
  switch (spec.optimizations.optimizer_state) {
    case spec::StateType::fp32:
      return DType::f32;
    case spec::StateType::bf16:
      return DType::bf16;
    case spec::StateType::int8:
      return DType::u8;
  }
  throw std::logic_error("moments of no type");
}

Moment moment(Update& update, const std::string& name, bool is_signed) {
  const ir::Graph& graph = update.builder.graph();
  ir::Dim exact{0, ""}, quantized{0, ""};
  DType numbers = DType::f32;
  for (const models::ParameterGroup* group : update.groups) {
    const int64_t rows = graph.value(group->parameters).shape[0].size;
    (group->moments == DType::u8 ? quantized : exact).size += rows;
    if (group->moments != DType::u8) numbers = group->moments;
  }
  const ir::Shape pack = graph.value(update.pack.parameters).shape;
  const auto rows = [&](const ir::Dim& part) { return part.size == pack[0].size ? pack[0] : part; };
  Moment moment{.is_signed = is_signed};
  if (exact.size > 0)
    moment.numbers = update.builder.fresh(name, {rows(exact), pack[1]}, numbers, Role::optimizer_state);
  if (quantized.size > 0) {
    moment.codes =
        update.builder.fresh(name + ".codes", {rows(quantized), pack[1]}, DType::u8, Role::optimizer_state);
    moment.scales =
        update.builder.fresh(name + ".scales", {rows(quantized)}, DType::f32, Role::optimizer_state);
  }
  return moment;
}

}  // namespace hydrac::optimizers
