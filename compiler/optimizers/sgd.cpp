// Stochastic gradient descent with momentum as in PyTorch: g += wd p;  buf = mu buf + g;  p -= lr buf
#include "optimizers/group_kernel.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::Term;

void sgd(Update& update) {
  const auto& options = update.spec.train.optimizer;
  const std::vector<Moment> moments = {moment(update, "sgd.momentum")};
  for (const models::ParameterGroup* group : update.groups) {
    GroupKernel kernel(update, *group, {.moments = moments});
    BodyBuilder& k = kernel.body();
    const Term parameter = kernel.parameter();
    const Term decay = kernel.row_decay(options.weight_decay);
    const Term gradient = k.named("gradient", kernel.clipped_gradient() + parameter * decay);
    const Term buffer_new = k.named("buffer_new", kernel.moment(0) * options.momentum + gradient);
    kernel.store_parameter(parameter - kernel.learning_rate() * buffer_new);
    kernel.store_moment(0, buffer_new, "buffer");
    kernel.emit("sgd",
                "momentum = mu * momentum + clip * gradients + weight_decay * p\n"
                "p = p - learning_rate * momentum");
  }
}

}  // namespace hydrac::optimizers
