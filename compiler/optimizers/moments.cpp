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
  const auto fresh = [&](const std::string& part, const ir::Shape& shape, DType dtype) {
    const ir::Use use = update.builder.fresh(part, shape, dtype, Role::optimizer_state);
    update.builder.graph().value(use.value).on_host = update.spec.optimizations.offload.optimizer_state;
    return use;
  };
  Moment moment{.is_signed = is_signed};
  if (exact.size > 0) moment.numbers = fresh(name, {rows(exact), pack[1]}, numbers);
  if (quantized.size > 0) {
    moment.codes = fresh(name + ".codes", {rows(quantized), pack[1]}, DType::u8);
    moment.scales = fresh(name + ".scales", {rows(quantized)}, DType::f32);
  }
  return moment;
}

}  // namespace hydrac::optimizers
