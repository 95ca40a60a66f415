// Lion (Chen et al., 2023), decoupled weight decay:
//   p = p (1 - lr wd) - lr * sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g
#include "optimizers/group_kernel.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::Term;

void lion(Update& update) {
  const auto [beta1, beta2] = Betas(update.spec);
  const std::vector<Moment> moments = {moment(update, "lion.m")};
  for (const models::ParameterGroup* group : update.groups) {
    GroupKernel kernel(update, *group, {.moments = moments});
    BodyBuilder& k = kernel.body();
    const Term zero = k.constant(0), rate = kernel.learning_rate(), m = kernel.moment(0);
    const Term gradient = kernel.gradient();
    const auto number = [&](const ir::Number& value, const char* name) {
      return k.constant(value, ir::ExprType::f32, name);
    };
    const Term direction =
        k.named("direction", m * number(beta1, "kBeta1") + gradient * number(1 - beta1, "kShare1"));
    const Term sign = k.named(
        "sign", select(zero < direction, k.constant(1), select(direction < zero, k.constant(-1), zero)));
    kernel.store_parameter(kernel.decayed(kernel.parameter()) - rate * sign);
    kernel.store_moment(0, m * number(beta2, "kBeta2") + gradient * number(1 - beta2, "kShare2"), "m");
    kernel.emit("lion", "p = " + kernel.decayed_formula() +
                            " - learning_rate * sign(beta1 m + (1 - beta1) g)\n"
                            "m = beta2 m + (1 - beta2) g, g = clip * gradients");
  }
}

}  // namespace hydrac::optimizers
