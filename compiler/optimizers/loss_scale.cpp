#include "optimizers/loss_scale.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;

namespace {

// The largest power of two whose inverse is still a normal float32.
constexpr double kLargestScale = 0x1p126;

}  // namespace

ScaledStep adjust_loss_scale(ops::RegionBuilder& b, Use loss_scale, Use square, const LossScaling& scaling) {
  b.enter("optimizer", "optimizations.precision");
  const ScaledStep step{b.fresh("step_loss_scale", {}, DType::f32, Role::state),
                        b.fresh("skipped", {}, DType::i32, Role::state)};
  const Use good_steps = b.fresh("loss_scale.good_steps", {}, DType::i32, Role::optimizer_state);
  const Node node{.inputs = {square, loss_scale, good_steps},
                  .outputs = {step.scale, step.skipped, loss_scale, good_steps}};
  BodyBuilder k(b.graph(), node, {});
  const Term good = k.named("is_good", is_finite(k.scalar(0))), scale = k.scalar(1);
  const Term zero = k.constant(0, ExprType::i32), one = k.constant(1, ExprType::i32);
  const Term in_a_row = k.named("in_a_row", k.scalar(2) + one);
  const Term grows = k.named("grows", in_a_row == k.constant(static_cast<double>(scaling.growth_interval),
                                                             ExprType::i32, "kGrowthInterval"));
  const Term grown = min(scale * scaling.growth, k.constant(kLargestScale));
  k.store_row(0, scale);
  k.store_row(1, select(good, zero, one));
  k.store_row(2, select(good, select(grows, grown, scale), scale * scaling.backoff));
  k.store_row(3, select(good, select(grows, zero, in_a_row), zero));
  b.emit_body(
      node, "adjust_loss_scale", k.take(),
      "A step whose gradients are not finite is skipped and lowers the loss scale; many good ones raise it");
  return step;
}

SkipGuard::SkipGuard(Use skipped, Node& node) : input_(static_cast<int>(node.inputs.size())) {
  node.inputs.push_back(skipped);
}

Term SkipGuard::operator()(Term before, Term after) const {
  BodyBuilder& k = *after.builder;
  const Term goes_on = k.named("goes_on", k.scalar(input_) == k.constant(0, ExprType::i32));
  return select(goes_on, after, before);
}

}  // namespace hydrac::optimizers
