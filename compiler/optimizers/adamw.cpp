// AdamW (Loshchilov and Hutter, 2019), decoupled weight decay:
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  t = step + 1
//   p = p (1 - lr wd) - lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps)
#include <cmath>

#include "optimizers/optimizer.h"

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
  const auto [beta1, beta2] = update.spec.train.optimizer.betas;
  const Term t = k.named("t", convert(k.scalar(0), ExprType::f64) + 1);
  auto correction = [&](double beta) {
    return beta == 0 ? k.constant(1, ExprType::f64) : 1 - exp(t * std::log(beta));
  };
  k.store_row(0, convert(convert(k.scalar(1), ExprType::f64) / correction(beta1), ExprType::f32));
  k.store_row(1, convert(1 / sqrt(correction(beta2)), ExprType::f32));
  if (guard) k.store_row(2, (*guard)(k.scalar(0), k.scalar(0) + 1));
  b.emit_body(node, "adamw_corrections", k.take(),
              "t = step + 1, step_size = learning_rate / (1 - beta1^t), root_factor = 1 / sqrt(1 - beta2^t)");
  return c;
}

}  // namespace

void adamw(Update& update) {
  const auto& options = update.spec.train.optimizer;
  const auto [beta1, beta2] = options.betas;
  const Corrections corrections = bias_corrections(update);
  const Use p{update.pack.parameters, {}}, g{update.pack.gradients, {}};
  const Use m_use = moment(update, "adam.m"), v_use = moment(update, "adam.v");
  Node node{.inputs = {p, g, m_use, v_use, update.learning_rate, update.clip, corrections.step_size,
                       corrections.root_factor},
            .outputs = {p, m_use, v_use}};
  if (update.zero_gradients) node.outputs.push_back(g);
  const SkipGuard guard(update.skipped, node);
  const ir::Shape& shape = update.builder.graph().value(update.pack.parameters).shape;
  BodyBuilder k(update.builder.graph(), node, {shape[0]});
  k.columns({shape[1]});
  const auto number = [&](double value, const char* name) { return k.constant(value, ExprType::f32, name); };
  const Term gradient = k.named("gradient", k.full(1) * k.scalar(5));
  const Term m = k.named("m", k.full(2)), v = k.named("v", k.full(3));
  const Term m_new = k.named("m_new", m * number(beta1, "kBeta1") + gradient * number(1 - beta1, "kShare1"));
  const Term v_new =
      k.named("v_new", v * number(beta2, "kBeta2") + gradient * gradient * number(1 - beta2, "kShare2"));
  const Term keep = k.named("keep", 1 - k.scalar(4) * row_decay(k, update, options.weight_decay));
  const Term step = k.scalar(6) * (m_new / (sqrt(v_new) * k.scalar(7) + number(options.eps, "kEpsilon")));
  const Term p_old = k.named("p", k.full(0));
  k.store(0, k.named("p_new", guard(p_old, p_old * keep - step)));
  k.store(1, guard(k.full(2), m_new));
  k.store(2, guard(k.full(3), v_new));
  if (update.zero_gradients) k.store(3, k.constant(0));
  update.builder.emit_body(
      node, "adamw", k.take(),
      "m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, g = clip * gradients\n"
      "p = p (1 - learning_rate * weight_decay) - step_size m / (sqrt(v) root_factor + epsilon)");
}

}  // namespace hydrac::optimizers
