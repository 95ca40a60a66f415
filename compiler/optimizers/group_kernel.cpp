#include "optimizers/group_kernel.h"

#include "optimizers/rounding.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Role;
using ir::Term;
using ir::Use;

DType moment_type(const spec::Spec& spec) {
  return spec.optimizations.optimizer_state == spec::StateType::bf16 ? DType::bf16 : DType::f32;
}

bool rounds_stochastically(const spec::Spec& spec) {
  return spec.optimizations.weights == spec::WeightType::bf16 || moment_type(spec) == DType::bf16;
}

Use moment(Update& update, const std::string& name) {
  const ir::Graph& graph = update.builder.graph();
  ir::Shape shape = graph.value(update.pack.parameters).shape;
  if (update.groups.size() < update.pack.groups.size()) {
    shape[0] = {0, ""};
    for (const models::ParameterGroup* group : update.groups)
      shape[0].size += graph.value(group->parameters).shape[0].size;
  }
  return update.builder.fresh(name, shape, moment_type(update.spec), Role::optimizer_state);
}

int GroupKernel::add_input(Use use) {
  node_.inputs.push_back(use);
  return static_cast<int>(node_.inputs.size()) - 1;
}

int GroupKernel::add_output(Use use) {
  node_.outputs.push_back(use);
  return static_cast<int>(node_.outputs.size()) - 1;
}

GroupKernel::GroupKernel(Update& update, const models::ParameterGroup& group, const Tensors& tensors)
    : update_(update), group_(group) {
  ir::Graph& graph = update.builder.graph();
  const Use parameters{group.parameters, {}}, gradients{group.gradients, {}};
  if (tensors.parameters) {
    parameter_ = add_input(parameters);
    stored_parameter_ = add_output(parameters);
  }
  if (tensors.gradients) gradient_ = add_input(gradients);
  moments_ = static_cast<int>(node_.inputs.size());
  stored_moments_ = static_cast<int>(node_.outputs.size());
  for (const Use whole : tensors.moments) {
    const Use part{rows_of(graph, group, whole.value, update.groups[0]->first_row), {}};
    add_input(part);
    add_output(part);
  }
  if (tensors.reads.value != ir::kNoValue) read_ = add_input(tensors.reads);
  learning_rate_ = add_input(update.learning_rate);
  clip_ = add_input(update.clip);
  scalars_ = static_cast<int>(node_.inputs.size());
  for (const Use scalar : tensors.scalars) add_input(scalar);
  for (const Use output : node_.outputs) rounds_ |= graph.value(output).dtype == DType::bf16;
  if (tensors.makes.value != ir::kNoValue) made_ = add_output(tensors.makes);
  if (tensors.gradients && update.zero_gradients) zeroed_gradient_ = add_output(gradients);
  guard_.emplace(update.skipped, node_);
  if (update.rounding_key.value != ir::kNoValue) key_ = add_input(update.rounding_key);
  const ir::Shape& shape = graph.value(parameters).shape;
  body_.emplace(graph, node_, ir::Shape{shape[0]});
  body_->columns({shape[1]});
}

Term GroupKernel::row_decay(double decay) {
  BodyBuilder& k = body();
  const auto rows = static_cast<double>(group_.decayed_rows);
  const Term decayed = k.position(k.row(0)) < k.constant(rows, ExprType::i64, "kDecayedRows");
  return select(decayed, k.constant(decay, ExprType::f32, "kWeightDecay"), k.constant(0));
}

// The noise stands in a variable of its own and not in the choice that the guard makes: so the compiler sees
// that neighbours share a draw.
Term GroupKernel::stored(int tensor, int output, Term before, Term after, const std::string& name) {
  if (update_.builder.graph().value(node_.outputs[static_cast<size_t>(output)]).dtype == DType::bf16) {
    BodyBuilder& k = body();
    const int64_t group = &group_ - update_.pack.groups.data();
    const auto stream = static_cast<double>(rounding_stream(group, tensor));
    const Term key = k.named(name + "_key", k.scalar(key_) + k.constant(stream, ExprType::u32));
    const ir::Affine element = k.row(0) * models::kPackRow + k.column(0);
    const Term noise = k.named(name + "_noise", random_16_bits(key, k.position(element)));
    after = k.named(name + "_rounded", k.rounded_stochastically(after, noise));
  }
  return (*guard_)(before, after);
}

void GroupKernel::store_parameter(Term after, const std::string& name) {
  const Term result = stored(0, stored_parameter_, parameter(), after, "p");
  body().store(stored_parameter_, name.empty() ? result : body().named(name, result));
}

void GroupKernel::store_moment(int i, Term after, const std::string& name) {
  body().store(stored_moments_ + i, stored(1 + i, stored_moments_ + i, moment(i), after, name));
}

void GroupKernel::emit(const std::string& name, const std::string& formula) {
  if (zeroed_gradient_ >= 0) body().store(zeroed_gradient_, body().constant(0));
  update_.builder.emit_body(node_, name, body().take(),
                            formula + (rounds_ ? "\nrounded stochastically where it is stored as bf16" : ""));
}

}  // namespace hydrac::optimizers
