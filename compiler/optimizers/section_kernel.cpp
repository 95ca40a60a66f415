#include "optimizers/section_kernel.h"

#include <algorithm>

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
  return update.builder.fresh(name, graph.value(update.pack.parameters).shape, moment_type(update.spec),
                              Role::optimizer_state);
}

SectionKernel::SectionKernel(Update& update, const models::PackSection& section,
                             const std::vector<Use>& moments, const std::vector<Use>& scalars)
    : update_(update), section_(section) {
  ir::Graph& graph = update.builder.graph();
  const Use parameters{section.parameters, {}}, gradients{section.gradients, {}};
  node_.inputs = {parameters, gradients};
  node_.outputs = {parameters};
  for (const Use whole : moments) {
    const Use part{section_of(graph, section, whole.value), {}};
    node_.inputs.push_back(part);
    node_.outputs.push_back(part);
  }
  const auto next_input = [&] { return static_cast<int>(node_.inputs.size()); };
  learning_rate_ = next_input();
  node_.inputs.push_back(update.learning_rate);
  clip_ = next_input();
  node_.inputs.push_back(update.clip);
  node_.inputs.insert(node_.inputs.end(), scalars.begin(), scalars.end());
  for (const Use output : node_.outputs) rounds_.push_back(graph.value(output).dtype == DType::bf16);
  if (update.zero_gradients) node_.outputs.push_back(gradients);
  guard_.emplace(update.skipped, node_);
  key_ = next_input();
  if (update.rounding_key.value != ir::kNoValue) node_.inputs.push_back(update.rounding_key);
  const ir::Shape& shape = graph.value(parameters).shape;
  body_.emplace(graph, node_, ir::Shape{shape[0]});
  body_->columns({shape[1]});
}

Term SectionKernel::row_decay(double decay) {
  BodyBuilder& k = body();
  const auto rows = static_cast<double>(section_.decayed_rows);
  const Term decayed = k.position(k.row(0)) < k.constant(rows, ExprType::i64, "kDecayedRows");
  return select(decayed, k.constant(decay, ExprType::f32, "kWeightDecay"), k.constant(0));
}

// The noise stands in a variable of its own and not in the choice that the guard makes: so the compiler sees
// that neighbours share a draw.
Term SectionKernel::stored(int tensor, Term before, Term after, const std::string& name) {
  if (rounds_[tensor]) {
    BodyBuilder& k = body();
    const int64_t section = &section_ - update_.pack.sections.data();
    const auto stream = static_cast<double>(rounding_stream(section, tensor));
    const Term key = k.named(name + "_key", k.scalar(key_) + k.constant(stream, ExprType::u32));
    const ir::Affine element = k.row(0) * models::kPackRow + k.column(0);
    const Term noise = k.named(name + "_noise", random_16_bits(key, k.position(element)));
    after = k.named(name + "_rounded", k.rounded_stochastically(after, noise));
  }
  return (*guard_)(before, after);
}

void SectionKernel::store_parameter(Term after, const std::string& name) {
  const Term result = stored(0, parameter(), after, "p");
  body().store(0, name.empty() ? result : body().named(name, result));
}

void SectionKernel::store_moment(int i, Term after, const std::string& name) {
  body().store(1 + i, stored(1 + i, moment(i), after, name));
}

void SectionKernel::emit(const std::string& name, const std::string& formula) {
  if (update_.zero_gradients) body().store(static_cast<int>(rounds_.size()), body().constant(0));
  const bool rounds = std::ranges::find(rounds_, true) != rounds_.end();
  update_.builder.emit_body(node_, name, body().take(),
                            formula + (rounds ? "\nrounded stochastically where it is stored as bf16" : ""));
}

}  // namespace hydrac::optimizers
