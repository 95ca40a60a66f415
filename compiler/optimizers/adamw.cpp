// AdamW (Loshchilov and Hutter, 2019), decoupled weight decay:
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  t = step + 1
//   p = p (1 - lr wd) - lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps)
#include "optimizers/group_kernel.h"

namespace hydrac::optimizers {

namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;

struct Corrections {
  Use step_size;    // lr / (1 - b1^t)
  Use root_factor;  // 1 / sqrt(1 - b2^t)
};

// In f64: 1 - b2^t is a small difference in the first steps.
Corrections bias_corrections(Update& update) {
  ops::RegionBuilder& b = update.builder;
  const Corrections c{b.fresh("adam.step_size", {}, DType::f32, Role::state),
                      b.fresh("adam.root_factor", {}, DType::f32, Role::state)};
  // Skipped steps do not count: the moments have not seen them.
  const Use step = update.goes_on ? b.fresh("adam.step", {}, DType::i32, Role::optimizer_state) : update.step;
  Node node{.inputs = {step, update.learning_rate}, .outputs = {c.step_size, c.root_factor}};
  std::optional<SkipGuard> guard;
  if (update.goes_on) {
    node.outputs.push_back(step);
    guard.emplace(update.skipped, node);
  }
  BodyBuilder k(b.graph(), node, {});
  const auto [beta1, beta2] = Betas(update.spec);
  const Term t = k.named("t", convert(k.scalar(0), ExprType::f64) + 1);
  auto correction = [&](const ir::Number& beta, const char* name) {
    return beta.value == 0 ? k.constant(1, ExprType::f64)
                           : 1 - exp(t * k.constant(log(beta), ExprType::f64, name));
  };
  k.store_row(0,
              convert(convert(k.scalar(1), ExprType::f64) / correction(beta1, "kLogBeta1"), ExprType::f32));
  k.store_row(1, convert(1 / sqrt(correction(beta2, "kLogBeta2")), ExprType::f32));
  if (guard) k.store_row(2, (*guard)(k.scalar(0), k.scalar(0) + 1));
  b.emit_body(node, "adamw_corrections", k.take(),
              "t = step + 1, step_size = learning_rate / (1 - beta1^t), root_factor = 1 / sqrt(1 - beta2^t)");
  return c;
}

}  // namespace

void adamw(Update& update) {
  const auto& options = update.spec.train.optimizer;
  const auto [beta1, beta2] = Betas(update.spec);
  const ir::Number epsilon = ir::spec_number("adam_eps", options.eps, "train.optimizer.eps");
  const Corrections corrections = bias_corrections(update);
  const std::vector<Moment> moments = {moment(update, "adam.m"),
                                       moment(update, "adam.v", /*is_signed=*/false)};
  for (const models::ParameterGroup* group : update.groups) {
    GroupKernel kernel(update, *group,
                       {.moments = moments, .scalars = {corrections.step_size, corrections.root_factor}});
    BodyBuilder& k = kernel.body();
    const auto number = [&](const ir::Number& value, const char* name) {
      return k.constant(value, ExprType::f32, name);
    };
    const Term gradient = kernel.gradient();
    const Term m = k.named("m", kernel.moment(0)), v = k.named("v", kernel.moment(1));
    const Term m_new =
        k.named("m_new", m * number(beta1, "kBeta1") + gradient * number(1 - beta1, "kShare1"));
    const Term v_new =
        k.named("v_new", v * number(beta2, "kBeta2") + gradient * gradient * number(1 - beta2, "kShare2"));
    const Term step =
        kernel.scalar(0) * (m_new / (sqrt(v_new) * kernel.scalar(1) + number(epsilon, "kEpsilon")));
    const Term p = k.named("p", kernel.parameter());
    kernel.store_parameter(kernel.decayed(p) - step, "p_new");
    kernel.store_moment(0, m_new, "m");
    kernel.store_moment(1, v_new, "v");
    kernel.emit("adamw",
                "m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, g = clip * gradients\np = " +
                    kernel.decayed_formula() + " - step_size m / (sqrt(v) root_factor + epsilon)");
  }
}

}  // namespace hydrac::optimizers
