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

namespace {

// The rank's rows of several groups.
struct Rows {
  int64_t count = 0;
  std::vector<ir::SharedRows> groups = {};

  void add(const ir::Graph& graph, const models::ParameterGroup& group) {
    const int64_t own = graph.value(group.own_parameters).shape[0].size;
    count += own;
    for (const models::Stretch& stretch : group.stretches)
      groups.push_back({stretch.rows, stretch.own, stretch.slots});
  }
};

}  // namespace

Moment moment(Update& update, const std::string& name, bool is_signed) {
  const ir::Graph& graph = update.builder.graph();
  Rows exact, quantized;
  DType numbers = DType::f32;
  for (const models::ParameterGroup* group : update.groups) {
    (group->moments == DType::u8 ? quantized : exact).add(graph, *group);
    if (group->moments != DType::u8) numbers = group->moments;
  }
  const bool is_shared = update.pack.sharing_ranks > 1;
  const ir::Shape all =
      graph.value(is_shared ? update.groups[0]->own_parameters : update.pack.parameters).shape;
  const auto fresh = [&](const std::string& part, const Rows& rows, ir::Shape shape, DType dtype) {
    shape.insert(shape.begin(), rows.count == all[0].size ? all[0] : ir::Dim{rows.count, ""});
    const ir::Use use = update.builder.fresh(part, shape, dtype, Role::optimizer_state);
    ir::Value& value = update.builder.graph().value(use.value);
    value.on_host = update.spec.optimizations.offload.optimizer_state.any();
    if (is_shared) value.shared = rows.groups;
    return use;
  };
  Moment moment{.is_signed = is_signed};
  if (exact.count > 0) moment.numbers = fresh(name, exact, {all[1]}, numbers);
  if (quantized.count > 0) {
    moment.codes = fresh(name + ".codes", quantized, {all[1]}, DType::u8);
    moment.scales = fresh(name + ".scales", quantized, {}, DType::f32);
  }
  return moment;
}

}  // namespace hydrac::optimizers
