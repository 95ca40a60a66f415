#include "optimizers/step_scalars.h"

#include "ir/body_builder.h"
#include "optimizers/optimizer.h"
#include "optimizers/rounding.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;

namespace {

// PyTorch's clip_grad_norm_: factor min(1, max_norm / (norm + 1e-6)).
Term clip_factor(BodyBuilder& k, const spec::Spec& spec, Term norm) {
  if (spec.train.max_grad_norm == 0) return k.constant(1);
  const ir::Number most = ir::spec_number("max_grad_norm", spec.train.max_grad_norm, "train.max_grad_norm");
  return min(k.constant(1), k.constant(most, ExprType::f32, "kMaxNorm") / (norm + 1e-6));
}

// Without loss scaling a step that is not finite ends the run. It and all later steps change nothing, so the
// parameters from before it are available for finding the cause.
Term diverged(BodyBuilder& k, Term before, Term square, Term loss) {
  const Term one = k.constant(1, ExprType::i32);
  return select(is_finite(square), select(is_finite(loss), before, one), one);
}

// A scalar from the host or from the previous step, in float64.
Term input(BodyBuilder& k, int number) {
  return convert(k.scalar(number), ExprType::f64);
}

}  // namespace

StepScalars prepare_update(ops::RegionBuilder& b, const models::Model& model, Use step, Use square,
                           const std::optional<ScaledStep>& scaled,
                           const std::optional<AdaptiveRate>& adaptive,
                           const std::optional<FoundRate>& found) {
  b.enter("optimizer", "train.lr_scheduler");
  auto scalar = [&](const std::string& name) { return b.fresh(name, {}, DType::f32, Role::state); };
  StepScalars s{scalar("learning_rate"),
                scalar("clip"),
                scalar("grad_norm"),
                scalar("step_loss"),
                scaled ? scaled->skipped : b.fresh("diverged", {}, DType::i32, Role::state),
                {}};
  if (rounds_stochastically(model.spec))
    s.rounding_key = b.fresh("rounding_key", {}, DType::u32, Role::state);
  const Use loss{model.graph.results.loss, {}};
  Node node{.inputs = {step, square, loss},
            .outputs = {s.learning_rate, s.clip, s.grad_norm, s.step_loss, loss}};
  node.inputs.push_back(scaled ? scaled->scale : s.skipped);
  if (!scaled) node.outputs.push_back(s.skipped);
  const auto key = static_cast<int>(node.outputs.size()), seed = static_cast<int>(node.inputs.size());
  if (s.rounding_key.value != ir::kNoValue) {
    node.outputs.push_back(s.rounding_key);
    node.inputs.push_back({model.graph.state.rng_seed, {}});
  }
  const auto cut = static_cast<int>(node.inputs.size());
  if (adaptive) node.inputs.push_back(adaptive->cut);
  const auto digits = static_cast<int>(node.inputs.size());
  if (found) node.inputs.insert(node.inputs.end(), {found->digits, found->unit, found->trial});
  BodyBuilder k(b.graph(), node, {});
  const Term norm = k.named("norm", sqrt(k.scalar(1)));
  RateInputs inputs;
  if (adaptive) inputs.cut = input(k, cut);
  if (found) {
    inputs.whole = k.named("whole", input(k, digits) / input(k, digits + 1));
    inputs.trial = k.named("trial", input(k, digits + 2));
  }
  const Term rate = scheduled_learning_rate(k, model.spec, input(k, 0), inputs);
  k.store_row(0, k.named("rate", convert(rate, ExprType::f32)));
  const Term clip = clip_factor(k, model.spec, norm);
  k.store_row(1, scaled ? clip * (1 / k.scalar(3)) : clip);
  k.store_row(2, norm);
  k.store_row(3, k.scalar(2));
  k.store_row(4, k.constant(0));  // the next step's loss starts anew
  if (!scaled) k.store_row(5, diverged(k, k.scalar(3), k.scalar(1), k.scalar(2)));
  if (s.rounding_key.value != ir::kNoValue) {
    const Term site = k.constant(static_cast<double>(kRoundingSite), ExprType::i32, "kRoundingSite");
    k.store_row(key, random_key(k.scalar(seed), convert(k.scalar(0), ExprType::u32), site));
  }
  const auto& curve = model.spec.train.lr_scheduler.name.function;
  b.emit_body(node, curve ? "prepare_update." + curve->function : "prepare_update", k.take(),
              "learning_rate of this step, and the clip factor min(1, max_norm / (norm + 1e-6)), norm = "
              "sqrt(grad_square)");
  return s;
}

}  // namespace hydrac::optimizers
