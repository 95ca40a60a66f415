// Stochastic gradient descent with momentum as in PyTorch: g += wd p;  buf = mu buf + g;  p -= lr buf
#include "optimizers/optimizer.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::Node;
using ir::Term;
using ir::Use;

void sgd(Update& update) {
  const auto& options = update.spec.train.optimizer;
  const Use p{update.pack.parameters, {}}, g{update.pack.gradients, {}};
  const Use buffer = moment(update, "sgd.momentum");
  Node node{.inputs = {p, g, buffer, update.learning_rate, update.clip}, .outputs = {p, buffer}};
  if (update.zero_gradients) node.outputs.push_back(g);
  const SkipGuard guard(update.skipped, node);
  const ir::Shape& shape = update.builder.graph().value(update.pack.parameters).shape;
  BodyBuilder k(update.builder.graph(), node, {shape[0]});
  k.columns({shape[1]});
  const Term parameter = k.full(0);
  const Term decay = row_decay(k, update, options.weight_decay);
  const Term gradient = k.named("gradient", k.full(1) * k.scalar(4) + parameter * decay);
  const Term buffer_new = k.named("buffer_new", k.full(2) * options.momentum + gradient);
  k.store(0, guard(parameter, parameter - k.scalar(3) * buffer_new));
  k.store(1, guard(k.full(2), buffer_new));
  if (update.zero_gradients) k.store(2, k.constant(0));
  update.builder.emit_body(node, "sgd", k.take(),
                           "momentum = mu * momentum + clip * gradients + weight_decay * p\n"
                           "p = p - learning_rate * momentum");
}

}  // namespace hydrac::optimizers
