// Lion (Chen et al., 2023), decoupled weight decay:
//   p = p (1 - lr wd) - lr * sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g
#include "optimizers/optimizer.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::Node;
using ir::Term;
using ir::Use;

void lion(Update& update) {
  const auto& options = update.spec.train.optimizer;
  const auto [beta1, beta2] = options.betas;
  const Use p{update.pack.parameters, {}}, g{update.pack.gradients, {}};
  const Use m = moment(update, "lion.m");
  Node node{.inputs = {p, g, m, update.learning_rate, update.clip}, .outputs = {p, m}};
  if (update.zero_gradients) node.outputs.push_back(g);
  const SkipGuard guard(update.skipped, node);
  const ir::Shape& shape = update.builder.graph().value(update.pack.parameters).shape;
  BodyBuilder k(update.builder.graph(), node, {shape[0]});
  k.columns({shape[1]});
  const Term zero = k.constant(0), rate = k.scalar(3);
  const Term gradient = k.named("gradient", k.full(1) * k.scalar(4));
  const Term direction = k.named("direction", k.full(2) * beta1 + gradient * (1 - beta1));
  const Term sign = k.named(
      "sign", select(zero < direction, k.constant(1), select(direction < zero, k.constant(-1), zero)));
  const Term keep = 1 - rate * row_decay(k, update, options.weight_decay);
  k.store(0, guard(k.full(0), k.full(0) * keep - rate * sign));
  k.store(1, guard(k.full(2), k.full(2) * beta2 + gradient * (1 - beta2)));
  if (update.zero_gradients) k.store(2, zero);
  update.builder.emit_body(
      node, "lion", k.take(),
      "p = p (1 - learning_rate * weight_decay) - learning_rate * sign(beta1 m + (1 - beta1) g)\n"
      "m = beta2 m + (1 - beta2) g, g = clip * gradients");
}

}  // namespace hydrac::optimizers
