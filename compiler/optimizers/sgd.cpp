// Stochastic gradient descent with momentum, decoupled weight decay (SGDW, Loshchilov and Hutter, 2019):
//   buf = mu buf + g;  p = p (1 - lr wd) - lr buf
// PyTorch's SGD adds wd p to the gradient instead, so that momentum amplifies the decay.
#include "optimizers/group_kernel.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::Term;

void sgd(Update& update) {
  const std::vector<Moment> moments = {moment(update, "sgd.momentum")};
  for (const models::ParameterGroup* group : update.groups) {
    GroupKernel kernel(update, *group, {.moments = moments});
    BodyBuilder& k = kernel.body();
    const Term rate = kernel.learning_rate();
    const Term gradient = kernel.gradient();
    const Term momentum = k.constant(momentum_of(update.spec), ir::ExprType::f32, "kMomentum");
    const Term buffer_new = k.named("buffer_new", kernel.moment(0) * momentum + gradient);
    kernel.store_parameter(kernel.decayed(kernel.parameter()) - rate * buffer_new);
    kernel.store_moment(0, buffer_new, "buffer");
    kernel.emit("sgd", "momentum = mu * momentum + clip * gradients\np = " + kernel.decayed_formula() +
                           " - learning_rate * momentum");
  }
}

}  // namespace hydrac::optimizers
