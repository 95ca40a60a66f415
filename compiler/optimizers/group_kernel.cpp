#include "optimizers/group_kernel.h"

#include <algorithm>
#include <limits>

#include "optimizers/rounding.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Term;
using ir::Use;

bool rounds_stochastically(const spec::Spec& spec) {
  return spec.optimizations.weights == spec::WeightType::bf16 || moment_type(spec) == DType::bf16;
}

int GroupKernel::add_input(Use use) {
  node_.inputs.push_back(use);
  return static_cast<int>(node_.inputs.size()) - 1;
}

int GroupKernel::add_output(Use use) {
  node_.outputs.push_back(use);
  return static_cast<int>(node_.outputs.size()) - 1;
}

// The group's rows of what has the rank's rows of all groups with such moments.
GroupKernel::InPlace GroupKernel::add_part(Use whole, DType moments) {
  const auto first = std::ranges::find_if(
      update_.groups, [&](const models::ParameterGroup* group) { return group->moments == moments; });
  const Use part{own_rows_of(update_.builder.graph(), update_.pack, group_, whole.value, (*first)->first_row),
                 {}};
  return {add_input(part), add_output(part)};
}

GroupKernel::GroupKernel(Update& update, const models::ParameterGroup& group, const Tensors& tensors)
    : update_(update), group_(group) {
  ir::Graph& graph = update.builder.graph();
  const Use parameters{group.own_parameters, {}}, gradients{group.own_gradients, {}};
  if (tensors.parameters) {
    parameter_ = add_input(parameters);
    stored_parameter_ = add_output(parameters);
  }
  if (tensors.gradients) gradient_ = add_input(gradients);
  for (const Moment& moment : tensors.moments) {
    StoredMoment& stored = moments_.emplace_back();
    stored.is_signed = moment.is_signed;
    const bool has_codes = group.moments == DType::u8;
    stored.numbers = add_part(has_codes ? moment.codes : moment.numbers, group.moments);
    if (has_codes) stored.scales = add_part(moment.scales, group.moments);
  }
  if (tensors.reads.value != ir::kNoValue) read_ = add_input(tensors.reads);
  learning_rate_ = add_input(update.learning_rate);
  clip_ = add_input(update.clip);
  scalars_ = static_cast<int>(node_.inputs.size());
  for (const Use scalar : tensors.scalars) add_input(scalar);
  for (const Use output : node_.outputs) rounds_ |= graph.value(output).dtype == DType::bf16;
  if (tensors.makes.value != ir::kNoValue) made_ = add_output(tensors.makes);
  // A copy, where ranks share the update and keep whole gradients too.
  if (tensors.gradients && update.zero_gradients &&
      (update.pack.sharing_ranks == 1 || update.pack.shards_gradients))
    zeroed_gradient_ = add_output(gradients);
  guard_.emplace(update.skipped, node_);
  if (update.rounding_key.value != ir::kNoValue) key_ = add_input(update.rounding_key);
  if (rounds_ && !update.places.empty()) places_ = add_input(update.places[static_cast<size_t>(number())]);
  const ir::Shape& shape = graph.value(parameters).shape;
  body_.emplace(graph, node_, ir::Shape{shape[0]});
  body_->columns({shape[1]});
}

bool GroupKernel::decays() const {
  return group_.own_decayed_rows > 0 && update_.spec.train.optimizer.weight_decay != 0;
}

Term GroupKernel::decayed(Term p) {
  if (!decays()) return p;
  BodyBuilder& k = body();
  const ir::Number rows = ir::spec_number((group_.name.empty() ? "" : group_.name + "_") + "decayed_rows",
                                          group_.own_decayed_rows, "rows of parameters that decay");
  const ir::Number weight_decay = ir::spec_number("weight_decay", update_.spec.train.optimizer.weight_decay,
                                                  "train.optimizer.weight_decay");
  const Term decays = k.position(k.row(0)) < k.constant(rows, ExprType::i64, "kDecayedRows");
  const Term decay = select(decays, k.constant(weight_decay, ExprType::f32, "kWeightDecay"), k.constant(0));
  return p * k.named("keep", 1 - learning_rate() * decay);
}

std::string GroupKernel::decayed_formula() const {
  return decays() ? "p (1 - learning_rate * weight_decay)" : "p";
}

// The noise is a variable of its own, outside the guard's select, so that the compiler sees that neighbours
// share a draw.
Term GroupKernel::stored(int tensor, int output, Term before, Term after, const std::string& name) {
  if (update_.builder.graph().value(node_.outputs[static_cast<size_t>(output)]).dtype == DType::bf16) {
    BodyBuilder& k = body();
    const auto stream = static_cast<double>(rounding_stream(number(), tensor));
    const Term key = k.named(name + "_key", k.scalar(key_) + k.constant(stream, ExprType::u32));
    Term element = k.position(k.row(0) * update_.pack.row + k.column(0));
    if (places_ >= 0) {
      const auto row = static_cast<double>(update_.pack.row);
      element = convert(k.per_row(places_), ExprType::i64) * k.constant(row, ExprType::i64, "kRow") +
                k.position(k.column(0));
    }
    const Term noise = k.named(name + "_noise", random_16_bits(key, element));
    after = k.named(name + "_rounded", k.rounded_stochastically(after, noise));
  }
  return (*guard_)(before, after);
}

void GroupKernel::store_parameter(Term after, const std::string& name) {
  const Term result = stored(0, stored_parameter_, parameter(), after, "p");
  body().store(stored_parameter_, name.empty() ? result : body().named(name, result));
}

Term GroupKernel::moment(int i) {
  const StoredMoment& moment = moments_[static_cast<size_t>(i)];
  const Term stored = body().full(moment.numbers.input);
  if (moment.scales.input < 0) return stored;
  return dynamic_value(stored, moment.is_signed) * body().per_row(moment.scales.input);
}

void GroupKernel::store_moment(int i, Term after, const std::string& name) {
  const StoredMoment& moment = moments_[static_cast<size_t>(i)];
  if (moment.scales.input >= 0) return store_codes(moment, after, name);
  body().store(moment.numbers.output,
               stored(1 + i, moment.numbers.output, body().full(moment.numbers.input), after, name));
}

// A row's absmax is its scale. If the absmax is not a normal number, the row becomes 0, because its inverse
// could be infinite.
void GroupKernel::store_codes(const StoredMoment& moment, Term after, const std::string& name) {
  BodyBuilder& k = body();
  const Term magnitude = moment.is_signed ? abs(after) : after;
  const Term largest = k.named("largest_" + name, k.maximum(magnitude));
  const Term least = k.constant(std::numeric_limits<float>::min(), ExprType::f32, "kLeast");
  const Term inverse = k.named("inverse_" + name, select(largest < least, k.constant(0), 1 / largest));
  const Term code = dynamic_code(after * inverse, moment.is_signed);
  k.store(moment.numbers.output, (*guard_)(k.full(moment.numbers.input), code));
  k.store_row(moment.scales.output, (*guard_)(k.per_row(moment.scales.input), largest));
}

void GroupKernel::emit(const std::string& name, const std::string& formula) {
  if (zeroed_gradient_ >= 0) body().store(zeroed_gradient_, body().constant(0));
  const bool has_codes = group_.moments == DType::u8 && !moments_.empty();
  update_.builder.emit_body(
      node_, name + (has_codes ? "_int8" : ""), body().take(),
      formula + (rounds_ ? "\nrounded stochastically where it is stored as bf16" : "") +
          (has_codes ? "\nmoments as 8-bit codes, with the largest of each row as scale" : ""));
}

}  // namespace hydrac::optimizers
